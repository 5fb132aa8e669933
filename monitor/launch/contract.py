"""The answer of `acceptd launch render` as a value, so that the command only prints it (contract in docs/cli.md)."""

from __future__ import annotations

import shlex

from monitor.errors import LaunchError
from monitor.launch.redact import redact_text
from monitor.launch.render import render
from monitor.launch.speculation import Speculation
from monitor.model.server import Engine


def render_json(engine: str, version: str, speculation: str, target_args: str = "") -> tuple[int, dict[str, object]]:
    """Exit code and JSON object: 0 with `argv`, `env` and `warnings`, or 2 with `error`.

    `target_args` is one text, split as a shell would; `speculation` is JSON, where null or `{}` is off.
    """
    try:
        rendered = render(_engine(engine), version, _split(target_args), _speculation(speculation))
    except LaunchError as error:
        return 2, {"error": redact_text(str(error))}
    return 0, {"argv": list(rendered.argv), "env": dict(rendered.env), "warnings": list(rendered.warnings)}


def _engine(name: str) -> Engine:
    try:
        return Engine(name)
    except ValueError as error:
        known = ", ".join(engine.value for engine in Engine if engine is not Engine.UNKNOWN)
        raise LaunchError(f"engine {name!r}: expected one of {known}") from error


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise LaunchError(f"target arguments: expected words as for a shell ({error})") from error


def _speculation(text: str) -> Speculation | None:
    if text.strip() in ("", "null", "{}"):
        return None
    return Speculation.from_json(text)
