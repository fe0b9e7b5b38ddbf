"""The command line: ``crossview --help``."""

from crossview.cli import experiments, models
from crossview.cli.app import app

__all__ = ["app", "experiments", "models"]
