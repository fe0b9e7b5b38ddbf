"""Confidence intervals by the bootstrap: units are drawn with replacement, which only changes their weights."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.utils import gen_batches

from crossview._types import Array

_WEIGHTS = 4_000_000  # held at a time


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval.

    >>> print(Estimate(0.9, 0.85, 0.94))
    0.900 [0.850, 0.940]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def draw_weights(n_units: int, n_bootstrap: int, random_state: int | None, size: int = 1) -> Iterator[Array]:
    """Weights of the units, in batches of shape (b, n_units): first all 1, then how often each unit is drawn.

    The same seed gives the same weights. Batches are small enough for arrays of `size` numbers per draw.
    """
    rng = np.random.default_rng(random_state)
    yield np.ones((1, n_units))
    for batch in gen_batches(n_bootstrap, max(1, _WEIGHTS // max(n_units, size))):
        draws = batch.stop - batch.start
        yield rng.multinomial(n_units, np.full(n_units, 1.0 / n_units), size=draws).astype(np.float64)


def estimate(values: Array, n_units: int, confidence: float, *, constant: bool = False) -> Estimate | None:
    """The first of some values with the percentile interval of the others, its draws; None if it is nan.

    Where no draw differs from 0 or 1, the percentiles would say that the share is known exactly. Instead, the interval
    is the exact binomial one of `n_units` trials without a failure, unless the value is `constant` by definition.
    """
    value, draws = float(values[0]), values[1:][~np.isnan(values[1:])]
    if np.isnan(value):
        return None
    tail = (1.0 - confidence) / 2
    low, high = (float(end) for end in np.quantile(draws, [tail, 1.0 - tail])) if len(draws) else (value, value)
    if value in (0.0, 1.0) and low == high == value and not constant:
        bound = tail ** (1.0 / n_units)
        return Estimate(value, bound, 1.0) if value == 1.0 else Estimate(value, 0.0, 1.0 - bound)
    return Estimate(value, low, high)
