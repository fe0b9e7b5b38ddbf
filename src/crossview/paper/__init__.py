"""The paper's experiments: protocols, published figures, the literal algorithm, training times, and the report."""

from crossview.paper.protocols import EXPERIMENTS, QUICK, Effort, Experiment, plan, published
from crossview.paper.report import reproduction_report
from crossview.paper.tasks import run_paper_cell
from crossview.paper.timing import PaperLoader

__all__ = [
    "EXPERIMENTS",
    "QUICK",
    "Effort",
    "Experiment",
    "PaperLoader",
    "plan",
    "published",
    "reproduction_report",
    "run_paper_cell",
]
