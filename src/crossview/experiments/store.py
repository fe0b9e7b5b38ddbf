"""Results of cells in a file, which one run at a time may write to."""

import os
from dataclasses import asdict, dataclass
from typing import Any

from crossview import _store
from crossview._store import StoreError

__all__ = ["Record", "Store", "StoreError"]


@dataclass(frozen=True)
class Record:
    """What a store knows about a cell."""

    key: str  # by `crossview.experiments.key`
    cell: dict[str, Any]  # by `Cell.to_dict`
    status: str  # "done" or "failed"
    result: dict[str, Any] | None
    error: dict[str, str] | None  # its type, message and traceback
    seconds: float
    created: float  # in seconds since 1970
    version: str  # of crossview
    environment: dict[str, str]


class Store(_store.Store):
    """Records of cells, in a file that is created if it does not exist, and that others may read meanwhile.

    A record is on disk when `put` returns.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, exclusive=True)

    def put(self, entry: Record) -> None:
        """Store a record, replacing any with the same key."""
        super().put(asdict(entry))

    def _value(self, entry: dict[str, Any]) -> Record | None:
        record = Record(**entry)
        return record if isinstance(record.result if record.status == "done" else record.error, dict) else None
