"""How well samples of one view are recognised among samples of another."""

from crossview.metrics.cross_view import (
    chance_accuracy,
    cross_view_accuracy,
    cross_view_average_precision,
    mean_accuracy,
    mean_average_precision,
    one_shot_accuracy,
    skipped_probes,
)
from crossview.metrics.curves import average_precision, cmc, det, fnir_at_fpir, identification_rates, roc

__all__ = [
    "average_precision",
    "chance_accuracy",
    "cmc",
    "cross_view_accuracy",
    "cross_view_average_precision",
    "det",
    "fnir_at_fpir",
    "identification_rates",
    "mean_accuracy",
    "mean_average_precision",
    "one_shot_accuracy",
    "roc",
    "skipped_probes",
]
