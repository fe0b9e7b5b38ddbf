"""The command line: ``crossview --help``."""

from crossview.cli import evaluation, experiments, matching, models
from crossview.cli.app import app

__all__ = ["app", "evaluation", "experiments", "matching", "models"]
