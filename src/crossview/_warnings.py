"""Python's warning filters, which all threads share."""

from threading import RLock

WARNING_FILTERS = RLock()  # held while they change: threads that put them back in the wrong order leave them changed
