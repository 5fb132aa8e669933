"""What several sources say of one setting, weighed: one setting, where each part is from, and where they disagree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from monitor.model.life import Said, Setting, SettingSource

_NUMBER = "num_speculative_tokens"
#: The parts of a setting beside the number of tokens.
_OTHERS = ("method", "draft_model", "schedule")
#: A file in Hugging Face's cache: `models--org--name/snapshots/HASH`.
_CACHE_FOLDER = "models--"


@dataclass(frozen=True, slots=True)
class Weighed:
    """What all sources together say."""

    setting: Setting
    sources: Mapping[str, SettingSource]
    adapts: str | None = None
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def weigh(said: tuple[Said, ...], *, has_drafted: bool = False) -> Weighed:
    """The setting by these sources, most trusted first: the first that knows a part gives it.

    A page without speculation series does not overrule a source that asks for speculation (several releases lose the
    series), so "off" from a page only fills a gap. Where the page counts drafts (`has_drafted`) nobody's "off" holds.
    """
    found: dict[str, object] = {}
    sources: dict[str, SettingSource] = {}
    for one in said:
        for name in (_NUMBER, *_OTHERS):
            value = getattr(one.setting, name)
            if value in (None, ()) or name in found or (value == 0 and (has_drafted or _is_silent_page(one, said))):
                continue
            found[name], sources[name] = value, one.source
    if found.get(_NUMBER) == 0:
        for kept in (found, sources):
            kept.pop("schedule", None)
    adapts = next((one.adapts for one in said if one.adapts is not None), None)
    notes = [*_disagreements(said, adapts is not None), *(one.note for one in said if one.note is not None)]
    if has_drafted and _NUMBER not in found:
        off = ", ".join(one.source.value for one in said if one.setting.is_off)
        notes += [f"{_NUMBER}: {off} says 0 (off), but the page counts drafts"] if off else []
    return Weighed(Setting(**found), sources, adapts, tuple(notes))  # type: ignore[arg-type]


def _is_silent_page(one: Said, said: Sequence[Said]) -> bool:
    return one.source is SettingSource.PAGE and any(other.setting.num_speculative_tokens for other in said)


def _disagreements(said: Sequence[Said], adapts: bool) -> list[str]:
    """A sentence for each part on which sources differ. A number that the engine moves itself differs by design."""
    numbers = [one for one in said if not (adapts and one.source is SettingSource.PAGE)]
    speculating = [one for one in said if one.setting.num_speculative_tokens != 0]
    found = [
        _difference(_NUMBER, numbers, _same, _shown_number),
        _difference("method", speculating, _same, str),
        _difference("draft_model", speculating, _is_same_model, str),
        _difference("schedule", speculating, _same, _shown_schedule),
    ]
    return [sentence for sentence in found if sentence is not None]


def _difference(
    name: str, said: Sequence[Said], same: Callable[[object, object], bool], shown: Callable[[object], str]
) -> str | None:
    known = [(one.source, value) for one in said if (value := getattr(one.setting, name)) not in (None, ())]
    if all(same(value, known[0][1]) for _, value in known):
        return None
    return f"{name}: " + ", ".join(f"{source.value} says {shown(value)}" for source, value in known)


def _same(one: object, other: object) -> bool:
    return one == other


def _is_same_model(one: object, other: object) -> bool:
    """Whether two names can mean one model: a path ends in its name, the cache of Hugging Face spells it otherwise."""
    return _model_name(str(one)) == _model_name(str(other))


def _model_name(text: str) -> str:
    parts = PurePosixPath(text).parts
    cached = next((part for part in parts if part.startswith(_CACHE_FOLDER)), None)
    return cached.rpartition("--")[2] if cached is not None else (parts[-1] if parts else "")


def _shown_number(value: object) -> str:
    return "0 (off)" if value == 0 else str(value)


def _shown_schedule(value: object) -> str:
    return str([list(entry) for entry in value]) if isinstance(value, tuple) else str(value)
