"""The command line: ``crossview --help``."""

from crossview.cli import comparison, matching, models
from crossview.cli.common import app

__all__ = ["app", "comparison", "matching", "models"]
