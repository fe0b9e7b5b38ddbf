"""Data to try things on."""

from crossview.datasets._dataset import Dataset
from crossview.datasets.embedded import load_digits
from crossview.datasets.images import load_coil100

__all__ = ["Dataset", "load_coil100", "load_digits"]
