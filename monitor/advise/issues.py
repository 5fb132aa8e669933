"""What is known to go wrong, by version and method: `rules/known_issues.yaml` as values. It stops nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from monitor.errors import ConfigError, LaunchError
from monitor.launch.versions import EVERY, Span, Version, parse_version
from monitor.launch.vllm_methods import BY_NAME
from monitor.model.document import Keys, one_of, parse_document
from monitor.model.server import Engine


class Condition(StrEnum):
    """What must be there too for an issue to apply."""

    LORA = "lora"
    PIPELINE_PARALLEL = "pipeline_parallel"
    DATA_PARALLEL = "data_parallel"
    #: Prompts of 8,192 tokens and more.
    LONG_CONTEXT = "long_context"
    SCHEDULE = "schedule"
    DRAFT_QUANTIZATION = "draft_quantization"


#: Prompt tokens from which a context is long.
LONG_PROMPT_TOKENS = 8192.0


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """One thing that is known to go wrong; no methods are all of them."""

    id: str
    effect: str
    link: str
    versions: Span
    methods: frozenset[str]
    condition: Condition | None

    @property
    def is_specific(self) -> bool:
        """Whether it is about some releases, methods or conditions, and not about speculation as such."""
        return bool(self.methods) or self.condition is not None or self.versions != EVERY

    def applies(self, version: Version, method: str, conditions: Collection[Condition]) -> bool:
        """Whether it concerns a method in a release under these conditions."""
        return (
            version in self.versions
            and (not self.methods or method in self.methods)
            and (self.condition is None or self.condition in conditions)
        )


def _release(value: Any) -> Any:
    try:
        return parse_version(Engine.VLLM, str(value)).text
    except LaunchError:
        raise ValueError("a release of vLLM such as 0.10.0") from None


def _method(value: Any) -> Any:
    if value not in BY_NAME:
        raise ValueError(one_of(str(value), sorted(BY_NAME)))
    return value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class SpanModel(_Part):
    """Releases, both ends included."""

    first: Annotated[str, BeforeValidator(_release)] | None = None
    last: Annotated[str, BeforeValidator(_release)] | None = None


class IssueModel(_Part):
    """One issue as written."""

    id: str = Field(pattern=r"^[a-z0-9-]{1,60}$")
    versions: SpanModel = SpanModel()
    methods: tuple[Annotated[str, BeforeValidator(_method)], ...] = ()
    condition: Condition | None = Field(None, alias="with")
    effect: str = Field(min_length=1)
    link: str = Field(pattern=r"^https://")


class IssuesModel(_Part):
    """The whole file."""

    issues: tuple[IssueModel, ...] = Field(min_length=1)


_KEYS: Keys = {
    (): tuple(IssuesModel.model_fields),
    ("issues",): ("id", "versions", "methods", "with", "effect", "link"),
    ("issues", "versions"): tuple(SpanModel.model_fields),
}


def load_issues(text: str, file: str) -> tuple[KnownIssue, ...]:
    """The issues in a text. Raises ConfigError with every mistake in it."""
    document = parse_document(text, file)
    try:
        model = IssuesModel.model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(document.problems(error, (), _KEYS)) from None
    seen: set[str] = set()
    found = []
    for i, one in enumerate(model.issues):
        if one.id in seen:
            found.append(document.problem(("issues", i, "id"), "an id of its own"))
        seen.add(one.id)
    if found:
        raise ConfigError(found)
    return tuple(
        KnownIssue(one.id, " ".join(one.effect.split()), one.link, Span(one.versions.first, one.versions.last),
                   frozenset(one.methods), one.condition)
        for one in model.issues
    )  # fmt: skip


def applying(
    issues: Iterable[KnownIssue], version: Version, method: str, conditions: Collection[Condition]
) -> tuple[KnownIssue, ...]:
    """The issues that concern a method in a release, in the order of the file."""
    return tuple(one for one in issues if one.applies(version, method, conditions))
