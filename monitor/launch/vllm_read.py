"""Reading the speculation part of a vLLM command line, in all the forms that 0.4.1 to 0.33.0 have. No versions here.

Merging follows the engine: dotted flags make a JSON of their own that comes last; of several JSONs the last counts;
`--spec-method`, `--spec-model` and `--spec-tokens` join it and may not repeat its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monitor.errors import LaunchError
from monitor.launch.argv import Found
from monitor.launch.speculation import Speculation, load_json
from monitor.launch.values import value_of
from monitor.launch.vllm_flags import SHORT_FLAGS

_CONFIG = "speculative_config"
#: Texts that the parser reads as "not given" (`optional_type`, `nullable_str`).
_NULLS = frozenset({"", "None"})


def read_speculation(found: Sequence[Found]) -> tuple[Speculation | None, list[str]]:
    """The speculation that these flags ask for (None: off) and the problems in them, as sentences."""
    problems: list[str] = []
    config, more = _config([hit for hit in found if hit.flag.key == _CONFIG])
    problems += more
    singles: dict[str, object] = {}
    for hit in (hit for hit in found if hit.flag.key != _CONFIG):
        try:
            value = value_of(hit)
        except LaunchError as error:
            problems.append(str(error))
            continue
        if value in _NULLS:
            continue
        if hit.flag in SHORT_FLAGS and config is not None and hit.flag.key in config:
            problems.append(f"{hit.name} and the key {hit.flag.key!r} of --speculative-config exclude each other")
        singles[hit.flag.key] = value
    if not singles and config is None:
        return None, problems
    try:
        return Speculation.from_json(singles | (config or {})), problems
    except LaunchError as error:
        return None, [*problems, str(error)]


def _config(found: Sequence[Found]) -> tuple[dict[str, object] | None, list[str]]:
    """The JSON that counts, as the engine merges them; None where there is none."""
    whole = [hit for hit in found if not hit.path]
    dotted = _dotted(hit for hit in found if hit.path)
    problems = []
    if len(whole) + len(dotted) > 1:
        names = ", ".join(dict.fromkeys(hit.name + ("." if hit.path else "") for hit in found))
        problems.append(f"speculation is given more than once ({names}): the engine keeps only the last")
    if dotted:
        return list(dotted.values())[-1], problems
    if not whole:
        return None, problems
    text = whole[-1].values[0] if whole[-1].values else ""
    if text in _NULLS:
        return None, problems
    try:
        value = load_json(text)
    except ValueError as error:
        return None, [*problems, f"{whole[-1].name}: found {text!r}, expected a JSON object ({error})"]
    if not isinstance(value, dict):
        return None, [*problems, f"{whole[-1].name}: found {text!r}, expected a JSON object"]
    return {key.replace("-", "_"): item for key, item in value.items()}, problems


def _dotted(found: Iterable[Found]) -> dict[str, dict[str, object]]:
    merged: dict[str, dict[str, object]] = {}
    for hit in found:
        text = hit.values[0] if hit.values else ""
        keys = [key.replace("-", "_") for key in hit.path.removesuffix("+").split(".")]
        value: object = text.split(",") if hit.path.endswith("+") else _json_or_text(text)
        place = merged.setdefault(hit.name, {})
        for key in keys[:-1]:
            inner = place.setdefault(key, {})
            if not isinstance(inner, dict):
                inner = place[key] = {}
            place = inner
        before = place.get(keys[-1])
        place[keys[-1]] = before + value if isinstance(before, list) and isinstance(value, list) else value
    return merged


def _json_or_text(text: str) -> object:
    try:
        return load_json(text)
    except ValueError:
        return text
