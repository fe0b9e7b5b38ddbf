"""Models in files: written whole or not at all, and read without running anything that a file brings along.

A file is one line of text and an archive. The line has the format's number, the version of crossview that wrote it,
the archive's size, and a digest of all this and of the archive, so that any change by accident is found before
anything is read. The archive is that of skops: a schema in JSON that says which objects to build, and numpy arrays.

A digest does not stop someone who means harm. What does: the schema is checked against a list of what models are made
of, which is crossview's own classes, a few of scikit-learn's, plain containers, numbers and arrays, before skops sees
it. Functions, methods and everything else that could be called are not among them. What skops has built from it is
checked once more, before anybody gets it.
"""

from crossview.persistence._files import ModelFileError, PathLike, write_atomically
from crossview.persistence._models import load, save

__all__ = ["ModelFileError", "PathLike", "load", "save", "write_atomically"]
