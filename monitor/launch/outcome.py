"""What rendering is asked with and answers with. It holds values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from monitor.errors import LaunchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is known of the model served and its surroundings; None and empty are "not known".

    Sizes that the command line gives (tensor and data parallel) are read from it where they are None here.
    """

    tensor_parallel_size: int | None = None
    data_parallel_size: int | None = None
    #: Heads of the draft (`n_predict`, `num_nextn_predict_layers` of its configuration).
    n_predict: int | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    #: The environment the server is started with; VLLM_USE_V1 decides the engine in 0.7.1–0.9.2.
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say of a rendering; a fatal one means the engine would not start or would not obey."""

    text: str
    is_fatal: bool = False


@dataclass(frozen=True, slots=True)
class Rendered:
    """A command line and environment variables to start with, and what people should know of them."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpeculationFlags:
    """The speculation part of a command line for one release, with what was found on the way.

    `needs` are switches of the engine that are not speculation: they are added where the line lacks them.
    """

    argv: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def fatal(text: str) -> Finding:
    """A finding that stops the rendering."""
    return Finding(text, is_fatal=True)


def raise_fatal(findings: Iterable[Finding]) -> None:
    """Raise one `LaunchError` that lists every fatal finding; does nothing where there is none."""
    texts = [finding.text for finding in findings if finding.is_fatal]
    if texts:
        raise LaunchError("; ".join(texts))
