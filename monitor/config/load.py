"""YAML and environment to a frozen `Config`: every mistake at once, with its path, what was found and expected."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from monitor.config.model import Config
from monitor.config.routes import route_problems
from monitor.config.servers import Driver, DriverKind, ServerConfig
from monitor.errors import ConfigError, Problem
from monitor.launch import redact_url
from monitor.model.document import EXPECTED, Document, one_of, parse_document
from monitor.notify.webhook import address, signing_key

#: Environment variables override settings: ACCEPTD_ + the path in capitals, levels joined by two underscores.
ENV_PREFIX = "ACCEPTD_"
#: The folder of secrets that acceptd.service loads as root and hands to the daemon.
CREDENTIALS = Path("/etc/acceptd/credentials")
_SECRET_KEYS = ("token", "password", "secret", "webhook_url", "dead_mans_switch_url", "api_key")
#: Variables with our prefix that are not settings.
_NOT_SETTINGS = {"ACCEPTD_CACHE", "ACCEPTD_CONFIG", "ACCEPTD_SERVER"}


def load(path: Path | None, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration in `path` (defaults alone if None) with the overrides of `environ`.

    Raises ConfigError with every problem found. Files named by `*_file` keys are read here, so that a missing
    secret is found at check time.
    """
    document = read_settings(path, environ)
    try:
        config = Config.model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(validation_problems(document, error)) from None
    problems = contradictions(document, config)
    if problems:
        raise ConfigError(problems)
    return config


def read_settings(path: Path | None, environ: Mapping[str, str] | None = None) -> Document:
    """What `path` and `environ` set, not validated. Raises ConfigError where the file is no mapping in YAML."""
    document = _read(path) if path else Document("environment", None, {})
    # `slack:` with nothing below it is YAML for null; people mean "not set".
    given = {key: value for key, value in (document.value or {}).items() if value is not None}
    data = _with_environment(given, os.environ if environ is None else environ)
    return Document(document.file, data, document.marks)


def validation_problems(document: Document, error: ValidationError) -> list[Problem]:
    """What is wrong with single settings."""
    return [_problem(document, entry) for entry in error.errors()]


def contradictions(document: Document, config: Config) -> list[Problem]:
    """What is wrong though every setting by itself is right."""
    file = document.file
    problems = [*_contradictions(file, config), *_unreadable_files(file, config)]
    # What is in a file can be judged where every file can be read.
    return [_located(document, problem) for problem in problems or _unfit_secrets(file, config)]


def _located(document: Document, problem: Problem) -> Problem:
    """The problem with the line of its setting; of several (`servers: a, b`) with that of their section."""
    keys = re.findall(r"[^.\[\]]+", problem.path.partition(": ")[0])
    mark = document.mark(tuple(int(key) if key.isdigit() else key for key in keys))
    return replace(problem, file=f"{document.file}:{mark.line}:{mark.column}") if document.marks else problem


def _read(path: Path) -> Document:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError([Problem(str(path), str(reason), "a readable YAML file")]) from error
    document = parse_document(text, str(path))
    if document.value is not None and not isinstance(document.value, dict):
        raise ConfigError([document.problem((), "a mapping of settings")])
    return document


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
        place[key] = value if _is_secret(key) else parse_document(value, f"environment variable {name}").value
    return data


def _is_secret(key: str) -> bool:
    return any(word in key for word in _SECRET_KEYS) and not key.endswith("_file")


def _problem(document: Document, error: Any) -> Problem:
    loc = error["loc"]
    if error["type"] == "missing":
        return document.problem(loc, "a value (it has no default)", found="nothing")
    if error["type"] == "extra_forbidden":
        return document.problem(loc, one_of(str(loc[-1]), _known_keys(loc)), found="an unknown key")
    text = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    expected = EXPECTED.get(error["type"], text).replace("String should match pattern", "text that matches")
    is_secret = any(_is_secret(part) or part == "headers" for part in loc if isinstance(part, str))
    if is_secret or (loc[0], loc[-1]) == ("webhooks", "url"):
        return document.problem(loc, expected, found="<secret>")
    return document.problem(loc, expected, found=without_password(document.found(loc)))


def without_password(text: str) -> str:
    """`text` without what a URL in it may hide: no message may repeat a password or a key."""
    return redact_url(text) if "://" in text else text


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
        ("sources", [s.name for s in config.sources]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                yield Problem(f"{what}: {name}", f"{count} entries of that name", "unique names", file)
    urls = Counter(metrics_url(s) for s in config.servers)
    for url, count in urls.items():
        if count > 1:
            twins = ", ".join(s.name for s in config.servers if metrics_url(s) == url)
            yield Problem(f"servers: {twins}", f"the same metrics URL {url}", "one server a URL", file)
    units = Counter(s.driver.unit for s in config.servers if s.driver is not None and s.driver.unit is not None)
    for unit, count in units.items():
        if count > 1:
            yield Problem(f"servers: {unit}", f"{count} servers of that unit", "one server a unit", file)
    used = {s.group or s.name for s in config.servers}
    for index, group in enumerate(config.groups):
        # With sources its servers may still be found.
        if group.name not in used and not config.sources:
            known = ", ".join(sorted(used)) or "none"
            yield Problem(f"groups[{index}].name", repr(group.name), f"a group of a server (known: {known})", file)
    stores = [source.name for source in config.sources if source.prometheus is not None]
    instances = Counter((s.through, s.instance) for s in config.servers if s.instance is not None)
    for (_, instance), count in instances.items():
        if count > 1:
            yield Problem("servers", f"{count} servers of instance {instance!r}", "one server an instance", file)
    for index, server in enumerate(config.servers):
        if server.through is not None and server.through not in stores:
            expected = f"a source of kind prometheus (known: {', '.join(stores) or 'none'})"
            yield Problem(f"servers[{index}].through", repr(server.through), expected, file)
        if server.instance is not None and server.through is None:
            yield Problem(f"servers[{index}].instance", repr(server.instance), "through: the source that has it", file)
        if server.drain and server.driver is None:
            yield Problem(f"servers[{index}].drain", "hooks", "a driver too: a watched server is never drained", file)
        for key, argv in _programs(server.driver).items():
            if "/" in argv[0] and not Path(argv[0]).exists():
                yield Problem(f"servers[{index}].driver.{key}[0]", repr(argv[0]), "an existing program", file)
    yield from route_problems(file, config)
    for section, files in (("rules", config.rules.files), ("slo", config.slo.files)):
        for index, path in enumerate(files):
            if not path.is_file():
                yield Problem(f"{section}.files[{index}]", repr(str(path)), "an existing file", file)


def _programs(driver: Driver | None) -> dict[str, tuple[str, ...]]:
    """The commands of a driver that run on this host, by their keys."""
    if driver is None:
        return {}
    keys = {DriverKind.PROCESS: ("command",), DriverKind.COMMAND: ("start", "stop", "status", "kill", "log")}
    return {key: argv for key in keys.get(driver.kind, ()) if (argv := getattr(driver, key))}


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
                    if not loaded(value).read_text().strip():
                        yield Problem(f"{path}.{name}", f"{str(value)!r}, which is empty", "a file with a value", file)
                except (OSError, UnicodeDecodeError) as error:
                    if isinstance(error, PermissionError) and value.parent == CREDENTIALS:
                        # For root alone: a person of the daemon's group looks at history without it.
                        continue
                    reason = error.strerror if isinstance(error, OSError) else "not text"
                    yield Problem(f"{path}.{name}", f"{str(value)!r} ({reason})", "a readable file", file)


def _unfit_secrets(file: str, config: Config) -> Iterator[Problem]:
    for index, webhook in enumerate(config.webhooks):
        for name, check in (("url", address), ("secret", signing_key)):
            try:
                check(secret(webhook, name) or "")
            except ValueError as error:
                yield Problem(f"webhooks[{index}].{name}", "<secret>", str(error), file)


def loaded(path: Path, environ: Mapping[str, str] | None = None) -> Path:
    """Where a secret's file can be read: below the service, systemd gives copies of files that are for root alone.

    `LoadCredential=acceptd:FOLDER` puts FOLDER/NAME into `$CREDENTIALS_DIRECTORY/acceptd_NAME` (systemd.exec(5)).
    """
    folder = (os.environ if environ is None else environ).get("CREDENTIALS_DIRECTORY")
    copy = Path(folder) / f"acceptd_{path.name}" if folder and path.parent == CREDENTIALS else path
    return copy if copy.is_file() else path


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
        lines: list[str] = loaded(Path(path)).read_text().strip().splitlines()
    except OSError as error:
        raise ConfigError([Problem(f"{name}_file", repr(str(path)), "a readable file")]) from error
    return lines[0].strip() if lines else None
