"""Data sets: included ones, synthetic ones, and loaders for your files."""

from crossview.datasets.arrays import load_arrays
from crossview.datasets.dataset import Dataset, shared_rows
from crossview.datasets.folders import load_folder
from crossview.datasets.included import load_descriptors, load_digits, make_captions, make_manifolds
from crossview.datasets.turntable import make_turntable

__all__ = [
    "Dataset",
    "load_arrays",
    "load_descriptors",
    "load_digits",
    "load_folder",
    "make_captions",
    "make_manifolds",
    "make_turntable",
    "shared_rows",
]
