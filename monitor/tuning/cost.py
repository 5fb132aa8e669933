"""Step time as a function of setting and batch: a small regression with priors, positive by construction.

    T(B, k) = t0 * (1 + h*[k > 0] + c*d(k) + v*(B*(coverage*k + 1) + prefill) + a*B*context)

t0: a step with next to no tokens; h: fixed overhead of speculating; c: one pass of the drafter (d(k) = k, or 1 for
drafters that make all tokens at once); v: one more token to verify; a: one more token in the KV cache to read, once a
step whatever k is. T is linear in k to within 0.7-2.1 % on three published sweeps. One setting cannot tell c from h,
one context not a from v: the priors can say something, and the error stays large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from monitor.tuning.observed import CostRow, Drafting, Step

Vector = NDArray[np.float64]

#: Prior medians relative to t0 and standard deviations of their logarithms: overhead, per pass, per verified token.
#: Passes: published EAGLE sweeps give 0.105-0.166, MTP about 0.06; verify: weight bytes over peak arithmetic of
#: current GPUs is 0.3-0.6 % a token for dense models, more where experts must be loaded. A draft model has the widest
#: overhead: nearly nothing beside a large model on a GPU, as much as a step beside its like on a CPU (vLLM 0.32, k = 1:
#: 2.3 steps), and no setting with drafts tells it from the step itself.
PRIORS: Mapping[Drafting, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    Drafting.HEAD: ((0.15, 0.50), (0.11, 0.35), (0.0040, 0.6)),
    Drafting.LAYER: ((0.15, 0.50), (0.07, 0.45), (0.0040, 0.6)),
    Drafting.MODEL: ((0.35, 0.90), (0.25, 0.60), (0.0040, 0.7)),
    Drafting.BLOCK: ((0.15, 0.50), (0.15, 0.50), (0.0040, 0.6)),
    Drafting.LOOKUP: ((0.17, 0.50), (0.004, 0.80), (0.0040, 0.6)),
}
#: The same for a token of context: its bytes in the KV cache over the bytes of the weights, as attention and weights
#: are both read from memory. 8e-6 for an 8B and 2e-6 for a 70B dense model (Llama 3.1, 16 bits), 1e-7 to 4e-6 where
#: the cache is compressed or experts are many.
CONTEXT_PRIOR = (4e-6, 1.0)
#: Relative standard deviation of an observed step time whose error is not given.
STEP_ERROR = 0.015
#: Relative distance of true step times from the line (graph sizes, caches): published sweeps 0.7-2.1 % at most.
SHAPE_ERROR = 0.008
#: Batch assumed where it is unknown, and how much wider the verify prior is then.
UNKNOWN_BATCH = 8.0
UNKNOWN_BATCH_SPREAD = 1.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Fitted step time: most likely parameters (logarithms of t0, h, c, v, a) and their covariance."""

    drafting: Drafting
    parameters: Vector
    covariance: Vector
    #: Context of a step that does not tell its own (tokens): the mean of what was told.
    context: float = 0.0
    #: Whether any step time was seen; else only ratios mean something.
    is_scaled: bool = True

    def log_seconds(self, step: Step) -> tuple[float, Vector]:
        """Logarithm of the step time and its slope in the parameters."""
        value, slope = _predict(self.parameters, _design([step], self.drafting, self.context))
        return float(value[0]), slope[0]

    def log_means(
        self, tokens: Sequence[int], load: Sequence[tuple[float, float]], like: Step
    ) -> tuple[Vector, Vector]:
        """Logarithm of the step time of each setting and its slope, averaged over a load of (batch, weight).

        Prefill, coverage and context are those of `like`.
        """
        steps = [replace(like, num_speculative_tokens=k, batch=batch) for k in tokens for batch, _ in load]
        value, slope = _predict(self.parameters, _design(steps, self.drafting, self.context))
        weights = np.array([weight for _, weight in load])
        weights /= weights.sum()
        slopes = np.einsum("b,kbp->kp", weights, slope.reshape(-1, len(load), len(self.parameters)))
        return value.reshape(len(tokens), -1) @ weights, slopes

    def seconds(self, step: Step) -> float:
        """Step time (seconds)."""
        return math.exp(self.log_seconds(step)[0])


def _design(steps: Sequence[Step], drafting: Drafting, context: float) -> Vector:
    """Factors of h, c, v and a; `context` is that of steps that do not tell theirs."""
    tokens, batch, prefill, coverage, held = np.array([
        (s.num_speculative_tokens, s.batch, s.prefill_tokens_per_step, s.coverage,
         context if s.decode_context is None else s.decode_context)
        for s in steps
    ]).T  # fmt: skip
    speculates = (tokens > 0).astype(np.float64)
    passes = speculates if drafting is Drafting.BLOCK else tokens
    return np.stack([speculates, passes, batch * (coverage * tokens + 1.0) + prefill, batch * held], axis=1)


def _predict(parameters: Vector, design: Vector) -> tuple[Vector, Vector]:
    """log T and its slopes for each row of the design."""
    parts = design * np.exp(parameters[1:])
    whole = 1.0 + parts.sum(axis=1)
    slope = np.empty((len(design), len(parameters)))
    slope[:, 0] = 1.0
    slope[:, 1:] = parts / whole[:, None]
    return parameters[0] + np.log(whole), slope


def fit(
    rows: Sequence[CostRow], drafting: Drafting, *, draft_ratio: float | None = None, is_batch_known: bool = True
) -> Cost:
    """Most likely parameters given step times (none at all leaves the priors) and their covariance.

    Gauss-Newton in the logarithms, so that every part stays positive; priors as extra rows.
    """
    centre, spread = _prior(drafting, draft_ratio, is_batch_known)
    precision = np.diag(1.0 / spread**2)
    if not rows:
        return Cost(drafting, centre, np.diag(spread**2), is_scaled=False)
    told = [row.decode_context for row in rows if row.decode_context is not None]
    context = sum(told) / len(told) if told else 0.0
    design = _design(rows, drafting, context)
    seen = np.log([r.step_seconds for r in rows])
    errors = np.array([math.hypot(STEP_ERROR if r.step_error is None else r.step_error, SHAPE_ERROR) for r in rows])
    weights = 1.0 / errors**2
    parameters = centre.copy()
    parameters[0] = float(np.mean(seen - _predict(np.concatenate([[0.0], centre[1:]]), design)[0]))
    centre[0] = parameters[0]
    hessian = precision
    for _ in range(12):
        value, slope = _predict(parameters, design)
        hessian = (slope * weights[:, None]).T @ slope + precision
        step = np.linalg.solve(hessian, slope.T @ (weights * (seen - value)) - precision @ (parameters - centre))
        parameters = parameters + np.clip(step, -1.0, 1.0)
        if float(np.abs(step).max()) < 1e-4:
            break
    return Cost(drafting, parameters, np.asarray(np.linalg.inv(hessian), dtype=np.float64), context)


def _prior(drafting: Drafting, draft_ratio: float | None, is_batch_known: bool) -> tuple[Vector, Vector]:
    overhead, draft, verify = PRIORS[drafting]
    if drafting is Drafting.MODEL and draft_ratio is not None:
        # A pass of the draft reads its weights, plus launches that do not shrink with it.
        draft = (draft_ratio + 0.05, 0.4)
    centre = np.log([1.0, overhead[0], draft[0], verify[0], CONTEXT_PRIOR[0]])
    extra = 0.0 if is_batch_known else UNKNOWN_BATCH_SPREAD
    of_tokens = (math.hypot(spread, extra) for spread in (verify[1], CONTEXT_PRIOR[1]))
    return centre, np.array([5.0, overhead[1], draft[1], *of_tokens])
