"""`acceptd tune` as JSON: documents in and out, with every mistake named. It decides nothing.

The document: `{"method", "num_speculative_tokens", "restart_seconds", "horizon_hours", "limits": {"min", "max"},
"observed": {"K": {"acceptance_rate_per_position" | "acceptance_length", "num_drafts", "finished_requests",
"step_seconds", "batch"}}, "rejected": [K...]}`; "0" is off. Unknown keys are ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from monitor.errors import ConfigError, Problem
from monitor.model.decision import Action
from monitor.tuning.advice import TuneAdvice
from monitor.tuning.decision import tune
from monitor.tuning.forecast import Forecast
from monitor.tuning.observed import Fact, Limits, Row, TuneInput

#: Largest setting that is taken for one: more is a mistake of the writer.
MOST_TOKENS = 128
#: Seconds and hours assumed where the document does not say.
RESTART_SECONDS, HORIZON_HOURS = 180.0, 24.0
#: Slack by which a rate may exceed the one before it, or 1, and still be taken for rounding.
ROUNDING = 1e-6


class _Reader:
    """Reads parts of a document and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong(self, path: str, found: object, expected: str) -> None:
        text = "nothing" if found is None else json.dumps(found, default=str)[:80]
        self.problems.append(Problem(path, text, expected))

    def number(
        self, parts: Mapping[str, Any], key: str, path: str, *, expected: str, fits: Callable[[float], bool],
        default: float | None = None,
    ) -> float | None:
        """A finite number that fits, or `default` where the key is absent or null."""
        value = parts.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not fits(value):
            self.wrong(f"{path}{key}", value, expected)
            return default
        return float(value)

    def tokens(self, value: Any, path: str, *, least: int = 0) -> int | None:
        """A setting as a whole number, or None with a problem noted."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or value != int(value) or not least <= value <= MOST_TOKENS:
            self.wrong(path, value, f"a whole number from {least} to {MOST_TOKENS}")
            return None
        return int(value)

    def mapping(self, value: Any, path: str, expected: str) -> Mapping[str, Any]:
        """An object, or an empty one with a problem noted."""
        if not isinstance(value, dict):
            self.wrong(path, value, expected)
            return {}
        return value


def parse(document: Any) -> TuneInput:
    """The tuner's input from a document.

    Raises:
        ConfigError: with every mistake: its path, the value found and what was expected.
    """
    read = _Reader()
    parts = read.mapping(document, "document", "an object with method, num_speculative_tokens and observed")
    if read.problems:
        raise ConfigError(read.problems)
    method = parts.get("method")
    if method is not None and not isinstance(method, str):
        read.wrong("method", method, 'a word such as "eagle3", or null')
    current = None
    if "num_speculative_tokens" not in parts:
        read.wrong("num_speculative_tokens", None, "the setting in force (0 = off), or null where unknown")
    elif parts["num_speculative_tokens"] is not None:
        current = read.tokens(parts["num_speculative_tokens"], "num_speculative_tokens")
    observed = _observed(read, parts)
    given = {
        "restart_seconds": read.number(parts, "restart_seconds", "", expected="seconds, 0 or more",
                                       fits=lambda x: x >= 0, default=RESTART_SECONDS),
        "horizon_hours": read.number(parts, "horizon_hours", "", expected="hours, more than 0",
                                     fits=lambda x: x > 0, default=HORIZON_HOURS),
        "draft_ratio": read.number(parts, "draft_ratio", "", expected="a ratio from 0 to 2",
                                   fits=lambda x: 0 <= x <= 2),
        "need_drafts": read.number(parts, "need_drafts", "", expected="drafts, 0 or more",
                                   fits=lambda x: x >= 0, default=5000.0),
        "need_requests": read.number(parts, "need_requests", "", expected="requests, 0 or more",
                                     fits=lambda x: x >= 0, default=30.0),
    }
    limits, rejected = _limits(read, parts), _rejected(read, parts)
    replicas, facts = _replicas(read, parts), _facts(read, parts)
    if read.problems:
        raise ConfigError(read.problems)
    return TuneInput(
        method=method, num_speculative_tokens=current, observed=observed, limits=limits, rejected=rejected,
        replicas=replicas, facts=facts, **given,  # type: ignore[arg-type]  # numbers with a default are never None
    )


def _observed(read: _Reader, parts: Mapping[str, Any]) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    for key, value in read.mapping(parts.get("observed"), "observed", "an object of settings, each with a row").items():
        path = f"observed.{key}"
        if not (key.isascii() and key.isdigit() and int(key) <= MOST_TOKENS):
            read.wrong(path, key, f"a setting from 0 (off) to {MOST_TOKENS} as the key")
            continue
        rows[int(key)] = _row(read, int(key), read.mapping(value, path, "an object"), path + ".")
    return rows


def _row(read: _Reader, tokens: int, parts: Mapping[str, Any], path: str) -> Row:
    survival = _survival(read, tokens, parts.get("acceptance_rate_per_position"), f"{path}acceptance_rate_per_position")
    length = read.number(parts, "acceptance_length", path, fits=lambda x: 1 <= x <= tokens + 1 + ROUNDING,
                         expected=f"tokens per draft from 1 to {tokens + 1}, bonus token included")
    if survival is not None:
        length = 1.0 + sum(survival)
    return Row(
        survival=survival,
        length=1.0 if tokens == 0 else length,
        num_drafts=read.number(parts, "num_drafts", path, expected="drafts, 0 or more", fits=lambda x: x >= 0),
        finished_requests=read.number(parts, "finished_requests", path, expected="requests, 0 or more",
                                      fits=lambda x: x >= 0),
        step_seconds=read.number(parts, "step_seconds", path, expected="seconds, more than 0", fits=lambda x: x > 0),
        batch=read.number(parts, "batch", path, expected="decoding requests, more than 0", fits=lambda x: x > 0),
        coverage=read.number(parts, "draft_coverage", path, expected="a share, more than 0 up to 1",
                             fits=lambda x: 0 < x <= 1) or 1.0,
        prefill_tokens_per_step=read.number(parts, "prefill_tokens_per_step", path, expected="tokens, 0 or more",
                                            fits=lambda x: x >= 0) or 0.0,
        decode_context=read.number(parts, "decode_context", path, expected="tokens, 0 or more", fits=lambda x: x >= 0),
    )


def _survival(read: _Reader, tokens: int, value: Any, path: str) -> tuple[float, ...] | None:
    if value is None or tokens == 0:
        return None
    expected = f"{tokens} rates from 0 to 1 that do not rise"
    numbers = isinstance(value, list) and all(isinstance(x, int | float) and not isinstance(x, bool) for x in value)
    if not numbers or len(value) != tokens or any(not -ROUNDING <= x <= 1 + ROUNDING for x in value):
        read.wrong(path, value, expected)
        return None
    if any(later > earlier + 0.02 for earlier, later in pairwise(value)):
        read.wrong(path, value, expected)
        return None
    rates: list[float] = []
    for rate in value:
        rates.append(min(1.0, max(0.0, float(rate)), rates[-1] if rates else 1.0))
    return tuple(rates)


def _limits(read: _Reader, parts: Mapping[str, Any]) -> Limits:
    value = parts.get("limits")
    if value is None:
        return Limits()
    found = read.mapping(value, "limits", 'an object such as {"min": 1, "max": 8}')
    least = read.tokens(found["min"], "limits.min") if found.get("min") is not None else 1
    most = read.tokens(found["max"], "limits.max", least=1) if found.get("max") is not None else 8
    depth = found.get("trained_depth")
    depth = read.tokens(depth, "limits.trained_depth", least=1) if depth is not None else None
    allow_off = found.get("allow_off", True)
    if not isinstance(allow_off, bool):
        read.wrong("limits.allow_off", allow_off, "true or false")
    if least is None or most is None or read.problems:
        return Limits()
    if max(1, least) > most:
        read.wrong("limits", value, "min not above max")
        return Limits()
    return Limits(minimum=max(1, least), maximum=most, allow_off=allow_off, trained_depth=depth)


def _rejected(read: _Reader, parts: Mapping[str, Any]) -> frozenset[int]:
    value = parts.get("rejected")
    if value is None:
        return frozenset()
    if not isinstance(value, list):
        read.wrong("rejected", value, "a list of settings")
        return frozenset()
    found = [read.tokens(item, f"rejected[{index}]") for index, item in enumerate(value)]
    return frozenset(tokens for tokens in found if tokens is not None)


def _replicas(read: _Reader, parts: Mapping[str, Any]) -> int | None:
    value = parts.get("replicas")
    return None if value is None else read.tokens(value, "replicas", least=1)


def _facts(read: _Reader, parts: Mapping[str, Any]) -> frozenset[Fact]:
    value = parts.get("facts")
    if value is None:
        return frozenset()
    known = {str(fact) for fact in Fact}
    if not isinstance(value, list) or any(not isinstance(item, str) or item not in known for item in value):
        read.wrong("facts", value, f"a list of {', '.join(sorted(known))}")
        return frozenset()
    return frozenset(Fact(item) for item in value)


def render(advice: TuneAdvice) -> dict[str, Any]:
    """The answer as a document; gains are ratios (0.05 = 5 %), null where nothing is proposed."""
    action = Action.KEEP if advice.action is Action.RESTART else advice.action
    return {
        "action": str(action),
        "num_speculative_tokens": advice.num_speculative_tokens,
        "gain": _rounded(advice.gain),
        "gain_low": _rounded(advice.gain_low),
        "gain_high": _rounded(advice.gain_high),
        "reason": str(advice.reason),
        "sentence": advice.sentence,
        "threshold_rule": {
            "action": str(advice.threshold.action),
            "num_speculative_tokens": advice.threshold.num_speculative_tokens,
            "sentence": advice.threshold.sentence,
        },
        "projection": {str(tokens): _projected(found) for tokens, found in sorted(advice.forecasts.items())},
    }


def _projected(forecast: Forecast) -> dict[str, float | None]:
    return {
        "acceptance_length": _rounded(forecast.length),
        "step_seconds": forecast.step_seconds,
        "goodput": _rounded(forecast.goodput),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def tune_json(document: Any) -> dict[str, Any]:
    """Answer one document.

    Raises:
        ConfigError: when the document is wrong, with every mistake in it.
    """
    return render(tune(parse(document)))


def answer_line(line: str) -> str:
    """Answer one line of JSON with one line of JSON; a wrong one with `{"error", "problems"}`."""
    try:
        document = json.loads(line)
    except ValueError as error:
        return json.dumps({"error": f"not JSON: {error}", "problems": []})
    except RecursionError:
        return json.dumps({"error": "not JSON: nested too deeply", "problems": []})
    try:
        return json.dumps(tune_json(document))
    except ConfigError as error:
        problems = [{"path": p.path, "found": p.found, "expected": p.expected} for p in error.problems]
        return json.dumps({"error": "; ".join(str(p) for p in error.problems), "problems": problems})


def serve(lines: Iterable[str], write: Callable[[str], object]) -> None:
    """Answer every line that is not blank, at once, until the lines end; `write` gets a line and must flush it."""
    for line in lines:
        if line.strip():
            write(answer_line(line) + "\n")
