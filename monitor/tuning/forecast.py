"""Goodput at every setting against the one in force: projected length over fitted step time, with its uncertainty.

Gains are ratios (0.05 = 5 % more tokens per second for each running request), averaged over the load of the day.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from monitor.tuning.cost import SHAPE_ERROR, STEP_ERROR, UNKNOWN_BATCH, Cost, fit
from monitor.tuning.observed import CostRow, Row, Step, TuneInput
from monitor.tuning.projection import project

#: Two-sided 95 % of the normal distribution.
Z95 = 1.959964
#: Standard deviations beyond which a step time of another server contradicts those of one's own.
CONTRADICTION = 3.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """One setting: length and step time (seconds, None if none was ever seen) and its gain over the one in force.

    `log_gain` and `log_error` are mean and standard deviation of the logarithm of the goodput ratio.
    """

    num_speculative_tokens: int
    length: float
    step_seconds: float | None
    log_gain: float
    log_error: float
    is_observed: bool

    @property
    def goodput(self) -> float | None:
        """Tokens per second for each running request; None where no step time was ever seen."""
        return self.length / self.step_seconds if self.step_seconds else None

    @property
    def rate(self) -> float | None:
        """Acceptance rate that goes with the length; None when off."""
        tokens = self.num_speculative_tokens
        return (self.length - 1.0) / tokens if tokens else None

    @property
    def gain(self) -> float:
        """Expected gain (ratio)."""
        return math.expm1(self.log_gain)

    @property
    def gain_low(self) -> float:
        """Lower end of the 95 % interval of the gain."""
        return math.expm1(self.log_gain - Z95 * self.log_error)

    @property
    def gain_high(self) -> float:
        """Upper end of the 95 % interval of the gain."""
        return math.expm1(self.log_gain + Z95 * self.log_error)

    @property
    def expected_improvement(self) -> float:
        """Gain expected of trying it, measuring, and going back where it lost: E[max(0, ratio - 1)] (ratio).

        The closed form for a log-normal ratio. It is what a trial is worth: a setting that is probably a little worse
        but may be much better has some, one that is surely equal has none.
        """
        mean, error = self.log_gain, self.log_error
        if error <= 0:
            return max(0.0, self.gain)
        above = math.exp(mean + error * error / 2) * _normal((mean + error * error) / error)
        return max(0.0, above - _normal(mean / error))


def _normal(x: float) -> float:
    """Distribution function of the standard normal distribution."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def fitted_cost(given: TuneInput) -> Cost:
    """Step time fitted to the rows of the server and of those like it."""
    rows = _own_rows(given)
    known = all(row.batch is not None for row in given.observed.values() if row.step_seconds is not None)
    return fit([*rows, *given.costs], given.drafting, draft_ratio=given.draft_ratio, is_batch_known=known)


def believable(given: TuneInput, others: Iterable[Sequence[CostRow]]) -> tuple[CostRow, ...]:
    """Rows of those other servers (one sequence each) that the server's own step times do not contradict.

    One row further from what its own rows predict than `CONTRADICTION` standard deviations, and the whole server is
    left out: it has another number of cards, another load or other prompts, whatever was declared.
    """
    own = fitted_cost(replace(given, costs=()))
    return tuple(row for rows in others if all(_agrees(row, own) for row in rows) for row in rows)


def _agrees(row: CostRow, own: Cost) -> bool:
    expected, slope = own.log_seconds(row)
    variance = float(slope @ own.covariance @ slope) + (row.step_error or STEP_ERROR) ** 2 + SHAPE_ERROR**2
    return abs(math.log(row.step_seconds) - expected) <= CONTRADICTION * math.sqrt(variance)


def step_of(tokens: int, row: Row) -> Step:
    """A step at that setting under the load of the row."""
    return Step(
        num_speculative_tokens=tokens, batch=row.batch if row.batch is not None else UNKNOWN_BATCH,
        coverage=row.coverage, prefill_tokens_per_step=row.prefill_tokens_per_step, decode_context=row.decode_context,
    )


def _own_rows(given: TuneInput) -> list[CostRow]:
    return [
        CostRow(**asdict(step_of(tokens, row)), step_seconds=row.step_seconds, step_error=row.step_error)
        for tokens, row in given.observed.items()
        if row.step_seconds is not None
    ]


def forecasts(given: TuneInput, highest: int) -> dict[int, Forecast]:
    """Forecast of every setting from off to `highest` that can be projected, and of the one in force.

    Empty where the setting in force has no row to compare with.
    """
    now = given.num_speculative_tokens
    row = given.current
    if now is None or row is None:
        return {}
    lengths = project(given.observed, given.drafting, max(highest, now))
    if now not in lengths:
        return {}
    cost = fitted_cost(given)
    step = step_of(now, row)
    load = given.batches or ((step.batch, 1.0),)
    settings = [tokens for tokens in lengths if tokens <= highest or tokens == now]
    means, slopes = cost.log_means(settings, load, step)
    here, at = lengths[now], settings.index(now)
    found = {}
    for index, tokens in enumerate(settings):
        there, slope = lengths[tokens], slopes[index] - slopes[at]
        variance = float(slope @ cost.covariance @ slope) + 2 * SHAPE_ERROR**2 + there.error**2 + here.error**2
        found[tokens] = Forecast(
            num_speculative_tokens=tokens,
            length=there.value,
            step_seconds=math.exp(means[index]) if cost.is_scaled else None,
            log_gain=math.log(there.value / here.value) - float(means[index] - means[at]),
            log_error=math.sqrt(variance) if tokens != now else 0.0,
            is_observed=there.is_observed,
        )
    return found
