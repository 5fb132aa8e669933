"""Drafts that are correlated within a request while their mean is the table's, exactly. It owns one random model.

Each request has a latent ease z and each draft a fresh e, both standard normal; x = sqrt(c) z + sqrt(1 - c) e is again
standard normal, and position i is accepted where x falls under the R_i quantile of the normal law (a Gaussian copula).
So every position keeps its published survival R_i, acceptance never skips a position, and two drafts of one request
correlate by somewhat less than c. The design effect of m drafts per request is 1 + (m - 1) times that correlation; in
public traces it is 1.8 on short maths prompts and 27 to 39 on chat.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from math import erf, exp, inf, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

_NORMAL = NormalDist()
#: Grid on which the latent's law is tabulated (standard deviations -4 to 4): 0.03 apart is finer than any use.
_GRID = np.linspace(-4.0, 4.0, 257)


#: Small numbers: drafts are drawn by the million.
Outcomes = npt.NDArray[np.int16]


class DraftLaw:
    """How many tokens of a draft are accepted, for given survival, coverage and correlation."""

    def __init__(self, survival: tuple[float, ...], coverage: float, correlation: float) -> None:
        """`survival` per step and position (0 to 1, non-increasing); `coverage`: share of steps that have a draft."""
        self.num_speculative_tokens = len(survival)
        self._latent_weight = sqrt(correlation)
        self._draft_weight = sqrt(1.0 - correlation)
        levels = (max(coverage, *survival), *survival) if survival else ()
        self._thresholds = np.array([_quantile(level) for level in levels], dtype=np.float32)
        self._levels = levels

    def latents(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Ease of so many new requests.

        An easy request needs fewer drafts for its tokens, so the law of arrivals is tilted by tokens per step: then the
        law over *drafts* is the standard normal, and the counters' acceptance is the table's.
        """
        if self._latent_weight == 0 or not self._levels:
            return np.zeros(count)
        return np.interp(rng.random(count), self._arrival_law, _GRID)

    def latent(self, rng: np.random.Generator) -> float:
        """Ease of a new request."""
        return float(self.latents(rng, 1)[0])

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens of one request's step."""
        return 1.0 + sum(self._levels[1:])

    def outcomes(
        self, rng: np.random.Generator, latents: npt.NDArray[np.float64], steps: int
    ) -> Outcomes:
        """One row per request, one column per step: 0 = no draft, 1 + a = a draft of which a were accepted."""
        outcome = np.zeros((len(latents), steps), dtype=np.int16)
        if not self._levels:
            return outcome
        noise = rng.standard_normal(outcome.shape, dtype=np.float32)
        noise *= np.float32(self._draft_weight)
        noise += (self._latent_weight * latents).astype(np.float32)[:, None]
        for threshold in self._thresholds:
            outcome += noise < threshold
        return outcome

    @cached_property
    def _arrival_law(self) -> npt.NDArray[np.float64]:
        finite = [float(level) for level in self._thresholds[1:] if np.isfinite(level)]
        certain = float(np.sum(self._thresholds[1:] == inf))
        weights = []
        for z in _GRID:
            shift = self._latent_weight * z
            accepted = sum(_cdf((level - shift) / self._draft_weight) for level in finite) + certain
            weights.append(exp(-z * z / 2) * (1.0 + accepted))
        # Half of each point's weight lies below it; without that every request would be a little too easy.
        law = np.cumsum(weights) - np.array(weights) / 2
        return np.asarray(law / sum(weights))


@lru_cache(maxsize=2048)
def draft_law(survival: tuple[float, ...], coverage: float, correlation: float) -> DraftLaw:
    """The law for these figures, built once."""
    return DraftLaw(survival, coverage, correlation)


def _quantile(level: float) -> float:
    if level <= 0:
        return -inf
    return inf if level >= 1 else _NORMAL.inv_cdf(level)


def _cdf(x: float) -> float:
    return 0.5 * (1.0 + erf(x / sqrt(2.0)))
