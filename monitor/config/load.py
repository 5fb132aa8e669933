"""YAML and environment to a frozen `Config`: every mistake at once, with its path, what was found and expected."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, SecretStr, ValidationError

from monitor.config.model import Config, DriverKind, ServerConfig
from monitor.errors import ConfigError, Problem

#: Environment variables override settings: ACCEPTD_ + the path in capitals, levels joined by two underscores.
ENV_PREFIX = "ACCEPTD_"
_SECRET_KEYS = ("token", "password", "secret", "webhook_url", "dead_mans_switch_url", "api_key")
#: Variables with our prefix that are not settings.
_NOT_SETTINGS = {"ACCEPTD_CACHE", "ACCEPTD_CONFIG", "ACCEPTD_SERVER"}


def load(path: Path | None, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in `path` (defaults alone if None) with the overrides of `environ`.

    Raises ConfigError with every problem found. Files named by `*_file` keys are read here, so that a missing
    secret is found at check time.
    """
    data: dict[str, Any] = {} if path is None else _read_yaml(path)
    file = str(path) if path else "environment"
    try:
        data = _with_environment(data, os.environ if environ is None else environ)
        config = Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError([*(_problem(file, data, e) for e in error.errors())]) from None
    problems = [*_contradictions(file, config), *_unreadable_files(file, config)]
    if problems:
        raise ConfigError(problems)
    return config


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, where YAML libraries silently keep the last."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is not a text", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is given twice (first on line {seen[key]})", key_node.start_mark
            )
        seen[key] = key_node.start_mark.line + 1
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(str(path), str(error), "a readable YAML file")]) from error
    try:
        data = yaml.load(text, _StrictLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the file"
        found = getattr(error, "problem", None) or str(error)
        raise ConfigError([Problem(where, found, "valid YAML", str(path))]) from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError([Problem("the file", f"a {type(data).__name__}", "a mapping of settings", str(path))])
    return data


def _with_environment(data: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """`data` with `ACCEPTD_SCRAPE__INTERVAL=5s` and the like laid over it; values are read as YAML scalars."""
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or name in _NOT_SETTINGS:
            continue
        *sections, key = name.removeprefix(ENV_PREFIX).lower().split("__")
        place = data
        for section in sections:
            below = place.get(section)
            place[section] = dict(below) if isinstance(below, dict) else {}
            place = place[section]
        value = environ[name]
        place[key] = value if any(word in key for word in _SECRET_KEYS) else yaml.safe_load(value)
    return data


def _problem(file: str, data: Any, error: Any) -> Problem:
    path, found = "", data
    for part in error["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
        try:
            found = found[part]
        except (KeyError, IndexError, TypeError):
            found = None
    expected = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    kind = error["type"]
    if kind == "missing":
        return Problem(path, "nothing", "a value (it has no default)", file)
    if kind == "extra_forbidden":
        known = _known_keys(error["loc"])
        near = get_close_matches(str(error["loc"][-1]), known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return Problem(path, "an unknown key", f"one of {', '.join(known)}{hint}", file)
    return Problem(path or "the file", _shown(path, found), _lower(expected), file)


def _lower(text: str) -> str:
    return text.removeprefix("Input should be ").replace("String should match pattern", "text that matches")


def _shown(path: str, value: Any) -> str:
    if any(word in path for word in _SECRET_KEYS) and not path.endswith("_file"):
        return "<secret>"
    if isinstance(value, dict | list):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    if isinstance(value, str):
        # A URL may carry a password where none is allowed; the message must not repeat it.
        value = re.sub(r"(://)[^/@\s]+@", r"\1<secret>@", value)
    return "nothing" if value is None else repr(value)


def _known_keys(loc: tuple[int | str, ...]) -> list[str]:
    model: Any = Config
    for part in loc[:-1]:
        if isinstance(part, int):
            continue
        model = _section_type(model.model_fields[part].annotation)
    return sorted(model.model_fields)


def _section_type(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = [_section_type(arg) for arg in getattr(annotation, "__args__", ())]
    return next((model for model in found if model is not None), None)


def _contradictions(file: str, config: Config) -> Iterator[Problem]:
    for what, names in (
        ("servers", [s.name for s in config.servers]),
        ("groups", [g.name for g in config.groups]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                yield Problem(f"{what}: {name}", f"{count} entries of that name", "unique names", file)
    urls = Counter(metrics_url(s) for s in config.servers)
    for url, count in urls.items():
        if count > 1:
            twins = ", ".join(s.name for s in config.servers if metrics_url(s) == url)
            yield Problem(f"servers: {twins}", f"the same metrics URL {url}", "one server a URL", file)
    used = {s.group or s.name for s in config.servers}
    for index, group in enumerate(config.groups):
        if group.name not in used:
            known = ", ".join(sorted(used)) or "none"
            yield Problem(f"groups[{index}].name", repr(group.name), f"a group of a server (known: {known})", file)
    for index, server in enumerate(config.servers):
        if server.drain and server.driver is None:
            yield Problem(f"servers[{index}].drain", "hooks", "a driver too: a watched server is never drained", file)
        if server.driver and server.driver.kind is DriverKind.PROCESS and "/" in server.driver.command[0]:
            program = Path(server.driver.command[0])
            if not program.exists():
                yield Problem(f"servers[{index}].driver.command[0]", repr(str(program)), "an existing program", file)
    for index, rules_file in enumerate(config.rules.files):
        if not rules_file.is_file():
            yield Problem(f"rules.files[{index}]", repr(str(rules_file)), "an existing file", file)


def metrics_url(server: ServerConfig) -> str:
    """The page to scrape of a configured server."""
    return server.metrics_url or f"{server.url}/metrics"


def _sections(model: BaseModel, path: str = "") -> Iterator[tuple[str, BaseModel]]:
    yield path, model
    for name in type(model).model_fields:
        value = getattr(model, name)
        below = f"{path}.{name}" if path else name
        if isinstance(value, BaseModel):
            yield from _sections(value, below)
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                if isinstance(item, BaseModel):
                    yield from _sections(item, f"{below}[{index}]")


def _unreadable_files(file: str, config: Config) -> Iterator[Problem]:
    for path, section in _sections(config):
        for name in type(section).model_fields:
            value = getattr(section, name)
            if name.endswith("_file") and isinstance(value, Path):
                try:
                    if not value.read_text().strip():
                        yield Problem(f"{path}.{name}", f"{str(value)!r}, which is empty", "a file with a value", file)
                except (OSError, UnicodeDecodeError) as error:
                    reason = error.strerror if isinstance(error, OSError) else "not text"
                    yield Problem(f"{path}.{name}", f"{str(value)!r} ({reason})", "a readable file", file)


def secret(section: BaseModel, name: str) -> str | None:
    """The secret `name` of a section, from its value or from its `_file`; None if neither is set.

    Raises ConfigError where the file has gone since it was checked.
    """
    value = getattr(section, name)
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    path = getattr(section, f"{name}_file")
    if path is None:
        return None
    try:
        lines: list[str] = Path(path).read_text().strip().splitlines()
    except OSError as error:
        raise ConfigError([Problem(f"{name}_file", repr(str(path)), "a readable file")]) from error
    return lines[0].strip() if lines else None
