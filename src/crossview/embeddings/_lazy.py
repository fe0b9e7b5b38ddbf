"""Training data of Dask arrays."""

from dataclasses import dataclass

from crossview.embeddings._data import TrainingData
from crossview.linalg.lazy import LazySamples


@dataclass(frozen=True, kw_only=True)
class LazyTrainingData(LazySamples, TrainingData):
    """Training views of Dask arrays, in blocks of rows."""
