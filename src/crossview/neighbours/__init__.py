"""Nearest neighbours, for fits, metrics and galleries.

`classes` finds the neighbours within and outside the class of each sample that fits need, `search` the nearest samples
of a gallery. Both are exact on the CPU, exact on tensors (`tensors`), or approximate (`search.InvertedFile`).

One rule holds for all of them. A search by matrix products is fast, but its rounding errors depend on the number of
threads, so it only proposes candidates: all samples that may be among the nearest, whatever these errors. Where these
errors could change their order, distances are computed coordinate by coordinate, and ties go to the lower index:
results are the same on every machine.
"""
