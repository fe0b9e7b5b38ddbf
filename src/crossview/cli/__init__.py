"""The command line: ``crossview --help``."""

from crossview.cli import comparison, evaluation, matching, models
from crossview.cli.app import app

__all__ = ["app", "comparison", "evaluation", "matching", "models"]
