"""Data sets: included ones, synthetic ones, and loaders for your files."""

from crossview.datasets._dataset import Dataset
from crossview.datasets.arrays import load_arrays
from crossview.datasets.cmu_pie import load_cmu_pie
from crossview.datasets.coil100 import load_coil100
from crossview.datasets.digits import load_descriptors, load_digits
from crossview.datasets.faces import load_cufsf, load_hfb
from crossview.datasets.folders import load_folder
from crossview.datasets.overlap import shared_rows, warn_about_shared_rows
from crossview.datasets.procedural import make_captions, make_manifolds
from crossview.datasets.turntable import make_turntable

__all__ = [
    "Dataset",
    "load_arrays",
    "load_cmu_pie",
    "load_coil100",
    "load_cufsf",
    "load_descriptors",
    "load_digits",
    "load_folder",
    "load_hfb",
    "make_captions",
    "make_manifolds",
    "make_turntable",
    "shared_rows",
    "warn_about_shared_rows",
]
