"""Experiments: cells that say what determines a result, a store of results, and a runner that fills it."""

from crossview._store import StoreError
from crossview.experiments.cells import Cell, Record, Search, Split, Store, fingerprint, key
from crossview.experiments.runner import run
from crossview.experiments.tasks import run_cell

__all__ = ["Cell", "Record", "Search", "Split", "Store", "StoreError", "fingerprint", "key", "run", "run_cell"]
