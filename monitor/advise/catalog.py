"""What is known of models, drafts and methods in general: `rules/pairs.yaml` as values. It reads a text, not a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from monitor.advise.shapes import ModelShape, Precision
from monitor.errors import ConfigError, Problem
from monitor.launch.vllm_methods import BY_NAME
from monitor.model.document import Document, Keys, one_of, parse_document

#: Kinds of traffic that lookup methods tell apart: how much of an answer stands in what came before.
KINDS = ("chat", "code", "rag", "edit")

_Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
_Size = Annotated[int, Field(gt=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _pattern(value: Any) -> Any:
    try:
        return re.compile(value, re.IGNORECASE)
    except (re.error, TypeError) as error:
        raise ValueError(f"a regular expression ({error})") from None


_Pattern = Annotated[Any, BeforeValidator(_pattern)]


class ModelEntry(_Part):
    """A model's shape, and the names it goes by."""

    name: str
    matches: tuple[_Pattern, ...] = Field(min_length=1)
    family: str
    parameters: float = Field(gt=0, allow_inf_nan=False)
    layers: _Size
    hidden: _Size
    intermediate: _Size
    heads: _Size
    kv_heads: _Size
    head_dim: _Size
    vocabulary: _Size
    tied: bool = False

    def shape(self, name: str) -> ModelShape:
        """The shape under the name that was asked for."""
        return ModelShape(
            name=name, vocabulary=self.vocabulary, family=self.family, parameters=self.parameters * 1e9,
            layers=self.layers, hidden=self.hidden, intermediate=self.intermediate, heads=self.heads,
            kv_heads=self.kv_heads, head_dim=self.head_dim, tied=self.tied,
        )


def _method(value: Any) -> Any:
    if value not in BY_NAME:
        raise ValueError(one_of(str(value), sorted(BY_NAME)))
    return value


class DraftEntry(_Part):
    """One way to speculate with a target."""

    method: Annotated[str, BeforeValidator(_method)]
    model: str | None = None
    note: str = ""


class PairEntry(_Part):
    """The drafts of one target, named as in `models` or by patterns of its own."""

    target: str
    matches: tuple[_Pattern, ...] = ()
    drafts: tuple[DraftEntry, ...]
    note: str = ""


class LookupEntry(_Part):
    """What a lookup method finds in one kind of traffic."""

    coverage: float = Field(gt=0, le=1, allow_inf_nan=False)
    acceptance: tuple[_Share, ...] = Field(min_length=1)


class MethodEntry(_Part):
    """What a method usually accepts, and where the numbers are from."""

    acceptance: tuple[_Share, ...] = ()
    kinds: dict[str, LookupEntry] = Field(default_factory=dict)
    most: int = Field(ge=1)
    source: str

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.acceptance) == bool(self.kinds):
            raise ValueError("either acceptance or kinds")
        if self.kinds and set(self.kinds) != set(KINDS):
            raise ValueError(f"kinds {', '.join(KINDS)}, each of them")
        return self


class CatalogModel(_Part):
    """The whole file."""

    models: tuple[ModelEntry, ...] = ()
    pairs: tuple[PairEntry, ...] = ()
    methods: dict[Annotated[str, BeforeValidator(_method)], MethodEntry] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Models, pairs and methods, asked by name."""

    models: tuple[ModelEntry, ...]
    pairs: tuple[PairEntry, ...]
    methods: Mapping[str, MethodEntry]

    def shape(self, name: str) -> ModelShape | None:
        """The shape of a model by its name (`org/Name` or a path); None where it is not listed.

        Endings such as `-FP8`, `-AWQ` or `-quantized.w4a16` say how its weights are stored.
        """
        entry = self._entry(name)
        return replace(entry.shape(name), precision=_ending(name)[1]) if entry is not None else None

    def pair(self, name: str) -> PairEntry | None:
        """The drafts listed for a target; None where it is not listed."""
        entry = self._entry(name)
        return next(
            (
                pair for pair in self.pairs
                if (entry is not None and pair.target == entry.name) or _fits(name, pair.matches)
            ),
            None,
        )  # fmt: skip

    def _entry(self, name: str) -> ModelEntry | None:
        return next((model for model in self.models if _fits(name, model.matches)), None)


#: How names tell that weights were quantized.
_FOUR_BIT = re.compile(r"[-_.](awq|gptq|int4|w4a16|4bit|bnb-4bit|nvfp4|mxfp4)([-_.].*)?$", re.IGNORECASE)
_EIGHT_BIT = re.compile(r"[-_.](fp8|int8|w8a8|w8a16|8bit|bnb-8bit)([-_.].*)?$", re.IGNORECASE)


def _ending(name: str) -> tuple[str, Precision]:
    """The last part of a name without the ending that tells how its weights are stored, and that."""
    last = name.rstrip("/").rsplit("/", 1)[-1]
    for pattern, precision in ((_FOUR_BIT, Precision.FOUR_BIT), (_EIGHT_BIT, Precision.EIGHT_BIT)):
        found = pattern.search(last)
        if found is not None:
            return re.sub(r"[-_.]quantized$", "", last[: found.start()]), precision
    return last, Precision.BF16


def _fits(name: str, patterns: tuple[re.Pattern[str], ...]) -> bool:
    bare = _ending(name)[0]
    return any(pattern.fullmatch(bare) for pattern in patterns)


def load_catalog(text: str, file: str) -> Catalog:
    """The catalog in a text. Raises ConfigError with every mistake in it."""
    document = parse_document(text, file)
    try:
        model = CatalogModel.model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(document.problems(error, (), _KEYS)) from None
    found = [*_names(document, model)]
    if found:
        raise ConfigError(found)
    return Catalog(model.models, model.pairs, model.methods)


def _names(document: Document, model: CatalogModel) -> list[Problem]:
    """Pairs of targets that nothing can match, and drafts of methods that nothing is known of."""
    known = [entry.name for entry in model.models]
    found = [
        document.problem(("pairs", i, "target"), f"{one_of(pair.target, known)}, or `matches` of its own")
        for i, pair in enumerate(model.pairs)
        if not pair.matches and pair.target not in known
    ]
    found += [
        document.problem(("pairs", i, "drafts", j, "method"), one_of(draft.method, sorted(model.methods)))
        for i, pair in enumerate(model.pairs)
        for j, draft in enumerate(pair.drafts)
        if draft.method not in model.methods
    ]
    return found


def _fields(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(model.model_fields)


_KEYS: Keys = {
    (): _fields(CatalogModel),
    ("models",): _fields(ModelEntry),
    ("pairs",): _fields(PairEntry),
    ("pairs", "drafts"): _fields(DraftEntry),
    ("methods",): _fields(MethodEntry),
}
