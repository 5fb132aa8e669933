"""The shape of a rule file, checked by pydantic, strictly. It owns no meaning beyond single values."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from monitor.model.alert import FLAP_SECONDS
from monitor.model.duration import DURATION_FORM, format_duration, parse_duration
from monitor.model.outcome import ChangeKind, TuneChange
from monitor.policy.matchers import parse_matcher
from monitor.policy.template import parse_template

#: Window of a rule that names none (seconds): that of the signals.
DEFAULT_WINDOW = 300.0

_STEP = re.compile(r"[+-]\d{1,3}")


def _seconds(value: Any) -> float:
    if value == 0 and isinstance(value, int) and not isinstance(value, bool):
        return 0.0
    try:
        return parse_duration(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(DURATION_FORM) from None


def window_seconds(value: Any) -> float:
    """Seconds of a window: a duration above 0."""
    seconds = _seconds(value)
    if seconds <= 0:
        raise ValueError("a window of more than 0s")
    return seconds


def after_source(value: Any) -> float:
    """Seconds for which the source of an inhibition is remembered: at most as long as alerts that are over are."""
    seconds = _seconds(value)
    if seconds > FLAP_SECONDS:
        raise ValueError(f"at most {format_duration(FLAP_SECONDS)}")
    return seconds


def change_asked(value: Any) -> TuneChange:
    """`+1`, `-1` (quoted or not), a number of tokens, or `off`."""
    if value == "off":
        return TuneChange(ChangeKind.OFF)
    if isinstance(value, str) and _STEP.fullmatch(value) and int(value) != 0:
        return TuneChange(ChangeKind.STEP, int(value))
    if isinstance(value, int) and not isinstance(value, bool) and value != 0 and abs(value) < 1000:
        return TuneChange(ChangeKind.STEP if value < 0 else ChangeKind.SET, value)
    raise ValueError('a step such as "+1" or "-1", a number of tokens from 1, or off')


def _name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z][\w.-]{0,62}", value):
        raise ValueError("a name of letters, digits, `_`, `-` and `.`, at most 63, that begins with a letter")
    return value


def _label_name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_]\w*", value):
        raise ValueError("a label name of letters, digits and `_`")
    if value in ("alertname", "server", "group"):
        raise ValueError("a label other than alertname, server and group, which acceptd sets itself")
    return value


def _template(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a text")
    return parse_template(value)


def _matcher(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a text such as 'server = \"chat-1\"'")
    return parse_matcher(value)


Duration = Annotated[float, BeforeValidator(_seconds)]
Name = Annotated[str, BeforeValidator(_name)]
Labels = dict[Annotated[str, BeforeValidator(_label_name)], str]
Annotations = dict[str, Annotated[Any, BeforeValidator(_template)]]
MatcherText = Annotated[Any, BeforeValidator(_matcher)]
Minimum = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Part(BaseModel):
    """A part of a rule file: unknown keys and wrong types are mistakes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RuleModel(Part):
    """Keys that every rule has."""

    window: Annotated[float, BeforeValidator(window_seconds)] = DEFAULT_WINDOW
    for_: Duration = Field(0.0, alias="for")
    need: dict[str, Minimum] = Field(default_factory=dict)
    show: list[str] = Field(default_factory=list)
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)


class AlertModel(RuleModel):
    """An alert rule."""

    alert: Name
    when: str
    scope: Literal["server", "group", "daemon"] = "server"
    keep_firing_for: Duration = 0.0


class DoModel(Part):
    """What a tuning rule asks for."""

    num_speculative_tokens: Annotated[Any, BeforeValidator(change_asked)] = None
    tuner: Literal["goodput"] | None = None


class TuneModel(RuleModel):
    """A tuning rule; without `when` it holds whenever there is data."""

    tune: Name
    when: str = "true"
    do: DoModel
    guard: Literal["goodput", "sure"] | None = None


class InhibitModel(Part):
    """An inhibition, spelled as in Alertmanager, with `pending` and `after` beside it."""

    source_matchers: list[MatcherText] = Field(min_length=1)
    target_matchers: list[MatcherText] = Field(min_length=1)
    equal: list[str] = Field(default_factory=list)
    pending: bool = False
    after: Annotated[float, BeforeValidator(after_source)] = 0.0


class GroupModel(Part):
    """A named group of rules; the rules are checked one by one."""

    name: Name
    rules: list[Any] = Field(min_length=1)


class FileModel(Part):
    """A rule file."""

    groups: list[Any] = Field(min_length=1)
    inhibit_rules: list[InhibitModel] = Field(default_factory=list)


def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys that `model` allows, as written in the file."""
    return tuple(field.alias or name for name, field in model.model_fields.items())
