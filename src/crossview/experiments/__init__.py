"""Experiments: cells that say what determines a result, a store of results, and a runner that fills it."""

from crossview.experiments.cells import Cell, Search, Split, fingerprint, key
from crossview.experiments.runner import run
from crossview.experiments.store import Record, Store, StoreError
from crossview.experiments.tasks import run_cell

__all__ = ["Cell", "Record", "Search", "Split", "Store", "StoreError", "fingerprint", "key", "run", "run_cell"]
