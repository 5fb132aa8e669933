"""Standard errors of means of correlated series, by a circular block bootstrap with a fixed seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

#: Blocks drawn together, so that correlation between neighbours is kept.
RUN_LENGTH = 5
#: Resamples; the error of a standard error is then about 3 %.
RESAMPLES = 500
#: What runs of length L miss of the variance of neighbours that correlate by about 0.3, as a share of it: this over L.
MISSED_VARIANCE = 0.85
#: The same numbers give the same verdict, so that it can be replayed.
SEED = 20_260_304


def standard_error(values: Sequence[float], run_length: int = RUN_LENGTH) -> float:
    """Standard error of the mean of a series in time order; infinite with fewer than 2 values.

    Runs shorten where the series is short (a quarter of it at most); what short runs miss of the correlation is added
    as for neighbours that correlate by 0.3, and the small-sample factor n / (n - 1) for the runs that the series holds.
    """
    count = len(values)
    if count < 2:
        return math.inf
    length = min(run_length, max(1, count // 4))
    runs = math.ceil(count / length)
    rng = np.random.default_rng(SEED)
    starts = rng.integers(0, count, size=(RESAMPLES, runs))
    index = (starts[:, :, None] + np.arange(length)[None, None, :]).reshape(RESAMPLES, -1)[:, :count] % count
    means = np.asarray(values, dtype=np.float64)[index].mean(axis=1)
    return float(means.std()) * math.sqrt(runs / (runs - 1) * (1.0 + MISSED_VARIANCE / length))
