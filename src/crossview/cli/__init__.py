"""The command line: ``crossview --help``."""

from crossview.cli import experiments, matching, models
from crossview.cli.app import app

__all__ = ["app", "experiments", "matching", "models"]
