"""How well samples of one view are recognised among samples of another."""

from crossview.metrics.cross_view import (
    accuracy_by_dimension,
    chance_accuracy,
    cross_view_accuracy,
    cross_view_average_precision,
    mean_accuracy,
    mean_average_precision,
    precision_by_dimension,
    skipped_probes,
)
from crossview.metrics.matching import (
    average_precision,
    cmc,
    det,
    roc,
)
from crossview.metrics.one_shot import one_shot_accuracy, one_shot_by_dimension
from crossview.metrics.open_set import (
    fnir_at_fpir,
    identification_rates,
)

__all__ = [
    "accuracy_by_dimension",
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
    "one_shot_by_dimension",
    "precision_by_dimension",
    "roc",
    "skipped_probes",
]
