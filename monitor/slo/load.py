"""SLO files to SLOs with their burn windows: every mistake at once, unreachable windows among them. It reads texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from monitor.errors import ConfigError, Problem
from monitor.model.document import Document, Keys, Path, one_of, parse_document, parse_documents
from monitor.model.duration import DURATION_FORM, format_duration, parse_duration
from monitor.model.slo import Indicator, Slo
from monitor.slo.openslo import is_openslo, translate
from monitor.slo.windows import MIN_PERIOD_DAYS, WINDOW_NAMES, BurnWindow, burn_windows, unreachable

_DAY = 86400.0

#: Shortest and longest time slice (seconds): the finest buckets that are kept, and half of the shortest long window,
#: so that a window holds the two slices that it needs without being stretched.
_SLICES = (60.0, 1800.0)


@dataclass(frozen=True, slots=True)
class SloPolicy:
    """An SLO and the burn windows that raise its alerts. `where` is `file:line`."""

    slo: Slo
    windows: tuple[BurnWindow, ...]
    where: str = ""
    description: str = ""


def _seconds(value: Any) -> float:
    try:
        return parse_duration(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(DURATION_FORM) from None


def _period(value: Any) -> float:
    days = _seconds(value) / _DAY
    if days < MIN_PERIOD_DAYS:
        raise ValueError(f"a period of at least {MIN_PERIOD_DAYS:g}d, such as 28d or 30d")
    return days


def _objective(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < 1.0:
        return float(value)
    raise ValueError("a share above 0 and below 1, such as 0.995")


def _slice(value: Any) -> float:
    seconds = _seconds(value)
    if not _SLICES[0] <= seconds <= _SLICES[1]:
        raise ValueError("a slice from {} to {}".format(*map(format_duration, _SLICES)))
    return seconds


def _threshold(value: Any) -> float:
    """Seconds of a duration, or a bare number for ratios and rates."""
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return float(value)
    try:
        return _seconds(value)
    except ValueError:
        raise ValueError("a duration such as 2s or 50ms for latencies, else a number") from None


def _name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,62}", value):
        raise ValueError("a name of letters, digits, `_`, `-` and `.`, at most 63, that begins with a letter or digit")
    return value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SloModel(_Part):
    """One SLO as written."""

    name: Annotated[str, BeforeValidator(_name)]
    indicator: str
    objective: Annotated[float, BeforeValidator(_objective)]
    period: Annotated[float, BeforeValidator(_period)] = 30.0
    threshold: Annotated[float, BeforeValidator(_threshold)] | None = None
    group: str | None = None
    server: str | None = None
    model: str | None = None
    minimum_events: float = Field(0.0, ge=0, allow_inf_nan=False)
    slice: Annotated[float, BeforeValidator(_slice)] = 300.0
    windows: list[str] | None = None
    report_only: bool | None = None
    description: str = ""


class SloFileModel(_Part):
    """An SLO file."""

    slos: list[Any] = Field(min_length=1)


def load_slos(sources: Mapping[str, str]) -> tuple[SloPolicy, ...]:
    """The SLOs of `sources` (file name to text), in order.

    Raises ConfigError with every mistake in every file; a window that can never fire is one, told with the arithmetic.
    """
    policies: list[SloPolicy] = []
    found: list[Problem] = []
    seen: dict[str, str] = {}
    for file, text in sources.items():
        try:
            document = _document(text, file, found)
        except ConfigError as error:
            found += error.problems
            continue
        try:
            model = SloFileModel.model_validate(document.value)
        except ValidationError as error:
            found += document.problems(error, (), {(): _keys(SloFileModel)})
            continue
        for i, raw in enumerate(model.slos):
            policy = _policy(document, ("slos", i), raw, found)
            if policy is None:
                continue
            name = policy.slo.name
            if name in seen:
                found.append(document.problem(("slos", i, "name"), f"a name of its own (the first is at {seen[name]})"))
            seen.setdefault(name, policy.where)
            policies.append(policy)
    if found:
        raise ConfigError(found)
    return tuple(policies)


def _document(text: str, file: str, found: list[Problem]) -> Document:
    """The file's document; OpenSLO documents are translated first."""
    documents = parse_documents(text, file)
    if not any(is_openslo(document) for document in documents):
        return parse_document(text, file)
    translated, mistakes = translate(documents)
    if mistakes and not translated.value["slos"]:
        raise ConfigError(mistakes)
    found += mistakes
    return translated


def _policy(document: Document, path: Path, raw: object, found: list[Problem]) -> SloPolicy | None:
    name = f"SLO {raw['name']}" if isinstance(raw, dict) and isinstance(raw.get("name"), str) else ""
    keys: Keys = {(): _keys(SloModel)}
    try:
        model = SloModel.model_validate(raw)
    except ValidationError as error:
        found += document.problems(error, path, keys, name)
        return None

    def mistake(key: str, expected: str, *place: int) -> None:
        found.append(document.problem((*path, key, *place), expected, name=name, below=len(path)))

    if model.indicator not in set(Indicator):
        mistake("indicator", one_of(model.indicator, [str(i) for i in Indicator]))
        return None
    indicator = Indicator(model.indicator)
    written = raw.get("threshold") if isinstance(raw, dict) else None
    wanted = _wanted_threshold(indicator, model.threshold, is_duration=isinstance(written, str))
    if wanted:
        mistake("threshold", wanted)
        return None
    narrowed = [key for key in ("group", "server", "model") if getattr(model, key) is not None]
    if len(narrowed) > 1:
        mistake(narrowed[1], f"only one of group, server and model ({narrowed[0]} is given too)")
        return None
    if model.model is not None and indicator in (Indicator.AVAILABILITY, Indicator.UPTIME):
        mistake("model", f"a group or a server: {indicator} is counted for each server, whatever models it has")
        return None
    # Acceptance says where a setting sits on its curve, not what users feel: reported unless asked for, never a page.
    is_quiet = indicator is Indicator.ACCEPTANCE
    slo = Slo(
        name=model.name,
        indicator=indicator,
        objective=model.objective,
        period_days=model.period,
        threshold=model.threshold,
        group=model.group,
        server=model.server,
        model=model.model,
        report_only=is_quiet if model.report_only is None else model.report_only,
        minimum_events=model.minimum_events,
        slice_seconds=model.slice,
    )
    allowed = [name for name in WINDOW_NAMES if not (is_quiet and name.startswith("page"))]
    names = allowed if model.windows is None else model.windows
    wrong = [i for i, window in enumerate(names) if window not in allowed]
    if wrong or not names:
        some_of = f"some of {', '.join(allowed)}" + (" (acceptance never pages)" if is_quiet else "")
        mistake("windows", some_of, *wrong[:1])
        return None
    windows = burn_windows(model.period, names)
    dead = None if slo.report_only else unreachable(slo, windows)
    if dead:
        mistake("windows" if model.windows is not None else "objective", dead)
        return None
    where = f"{document.file}:{document.mark(path).line}"
    return SloPolicy(slo, () if slo.report_only else windows, where, model.description)


def _wanted_threshold(indicator: Indicator, threshold: float | None, *, is_duration: bool) -> str | None:
    """What is wrong with a threshold, as what was expected; None when it fits its indicator."""
    if indicator in (Indicator.AVAILABILITY, Indicator.UPTIME):
        return None if threshold is None else f"no threshold: {indicator} counts answers"
    if indicator.is_latency:
        return None if threshold and threshold > 0 and is_duration else "a duration above 0, such as 2s or 50ms"
    if is_duration:
        return "a number without a unit"
    if indicator is Indicator.THROUGHPUT:
        return None if threshold and threshold > 0 else "tokens per second above 0"
    return None if threshold and 0 < threshold <= 1 else "a ratio above 0 and at most 1"


def _keys(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(model.model_fields)


def check_scopes(
    policies: Collection[SloPolicy], groups: Collection[str], servers: Collection[str]
) -> list[Problem]:
    """SLOs that name a group or a server that does not exist: they would count nothing and read as 100 %."""
    found = []
    for policy in policies:
        for kind, name, known in (("group", policy.slo.group, groups), ("server", policy.slo.server, servers)):
            if name is not None and name not in known:
                expected = one_of(name, sorted(known)) if known else f"a {kind}, but none is configured"
                found.append(Problem(f"SLO {policy.slo.name}: {kind}", repr(name), expected, policy.where))
    return found
