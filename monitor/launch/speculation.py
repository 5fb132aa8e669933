"""What speculation a server is started with: one value for every engine. It does not know versions or flags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from monitor.errors import LaunchError
from monitor.launch.schedule import Schedule, read_schedule
from monitor.model.life import Setting

#: Names that older releases take for the n-gram method, also in the place of a draft model.
NGRAM_NAMES: Final = frozenset({"ngram", "[ngram]"})
_WORDS: Final = ("method", "model", "quantization")
#: Key and the least value it may have; 0 for the count itself is speculation off.
_COUNTS: Final = {
    "num_speculative_tokens": 0,
    "draft_tensor_parallel_size": 1,
    "prompt_lookup_max": 1,
    "prompt_lookup_min": 1,
}
_SCHEDULE: Final = "num_speculative_tokens_per_batch_size"
#: Order in which keys are written: what people look for first, then the rest by name.
KEY_ORDER: Final = (
    "method",
    "model",
    "num_speculative_tokens",
    "draft_tensor_parallel_size",
    "quantization",
    "prompt_lookup_max",
    "prompt_lookup_min",
    _SCHEDULE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """The speculation part of a command line, in vLLM's words; None is "not given", so the engine decides.

    `method` uses the names of vLLM (`draft_model`, `mtp` …) for every engine; None leaves it to the draft's own
    configuration. `num_speculative_tokens` 0 is off. `extra` keeps what acceptd does not tune: further JSON keys of
    vLLM, further flags of SGLang and llama.cpp by their name with underscores.
    """

    method: str | None = None
    model: str | None = None
    num_speculative_tokens: int | None = None
    draft_tensor_parallel_size: int | None = None
    quantization: str | None = None
    prompt_lookup_max: int | None = None
    prompt_lookup_min: int | None = None
    num_speculative_tokens_per_batch_size: Schedule = ()
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "extra", dict(self.extra))

    @property
    def is_off(self) -> bool:
        """Whether this asks for no speculation at all."""
        return self.num_speculative_tokens == 0

    @property
    def setting(self) -> Setting:
        """The part that acceptd tunes and stores; every `*_mtp` is called `mtp` there."""
        return Setting(
            method=canonical_method(self.method),
            num_speculative_tokens=self.num_speculative_tokens,
            draft_model=self.model,
            schedule=self.num_speculative_tokens_per_batch_size,
        )

    def with_setting(self, setting: Setting) -> Speculation:
        """This speculation at another count or schedule; everything local (model, sizes, extras) stays as it is.

        A stored setting carries values only, so another method than the local one raises `LaunchError`: its draft
        model and flags are not known here. An unknown count keeps the local one.
        """
        ours, theirs = canonical_method(self.method), canonical_method(setting.method)
        if theirs is not None and ours is not None and theirs != ours:
            raise LaunchError(
                f"method {setting.method!r}: this server is configured for {self.method!r}, expected the same method"
            )
        tokens = setting.num_speculative_tokens
        return replace(
            self,
            num_speculative_tokens=self.num_speculative_tokens if tokens is None else tokens,
            num_speculative_tokens_per_batch_size=setting.schedule,
        )

    def to_json(self) -> dict[str, object]:
        """The keys that are given, in a stable order, as values of JSON."""
        known = {key: getattr(self, key) for key in KEY_ORDER if getattr(self, key) not in (None, ())}
        if self.num_speculative_tokens_per_batch_size:
            known[_SCHEDULE] = [list(entry) for entry in self.num_speculative_tokens_per_batch_size]
        return known | {key: self.extra[key] for key in sorted(self.extra)}

    @classmethod
    def from_json(cls, source: str | Mapping[str, object]) -> Speculation:
        """Read a JSON object (text or already read); keys that acceptd does not tune go to `extra` as they are.

        Raises `LaunchError` naming the key, the value found and what was expected. A null is a key not given; dashes
        in keys are read as underscores, as vLLM does.
        """
        given = _object(source)
        values: dict[str, object] = {key: _word(key, given.pop(key, None)) for key in _WORDS}
        values |= {key: _count(key, given.pop(key, None), least) for key, least in _COUNTS.items()}
        values[_SCHEDULE] = read_schedule(given.pop(_SCHEDULE, None))
        if values["method"] in NGRAM_NAMES or (values["method"] is None and values["model"] in NGRAM_NAMES):
            values["method"] = "ngram"
            values["model"] = None if values["model"] in NGRAM_NAMES else values["model"]
        extra = {key: value for key, value in given.items() if value is not None}
        try:
            compact(extra)
        except (TypeError, ValueError) as error:
            names = ", ".join(sorted(extra))
            raise LaunchError(f"speculation keys {names}: expected values of JSON ({error})") from error
        return cls(**values, extra=extra)  # type: ignore[arg-type]


def canonical_method(name: str | None) -> str | None:
    """The one name of a method: every `*_mtp` is `mtp`; other names, known or not, stay as they are."""
    return "mtp" if name is not None and name.endswith("_mtp") else name


def load_json(text: str) -> object:
    """Read JSON as the standard has it; raises `ValueError` for anything else, NaN and bottomless nesting included."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def compact(value: object) -> str:
    """JSON in one line without spaces, ASCII only, so that it passes any file and quoting unharmed."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _object(source: str | Mapping[str, object]) -> dict[str, object]:
    if isinstance(source, str):
        try:
            read = load_json(source)
        except ValueError as error:
            raise LaunchError(f"speculation {source!r}: expected a JSON object ({error})") from error
    else:
        read = source
    if not isinstance(read, Mapping):
        raise LaunchError(f"speculation {source!r}: expected a JSON object")
    return {str(key).replace("-", "_"): value for key, value in read.items()}


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _word(key: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise LaunchError(f"speculation key {key}: found {value!r}, expected a name")


def _count(key: str, value: object, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise LaunchError(f"speculation key {key}: found {value!r}, expected a whole number of {least} or more")
