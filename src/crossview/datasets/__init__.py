"""Data to try things on."""

from crossview.datasets._dataset import Dataset
from crossview.datasets.embedded import load_digits

__all__ = ["Dataset", "load_digits"]
