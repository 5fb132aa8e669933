"""Lists of servers in Prometheus' forms: files (`file_sd`) and an HTTP endpoint (`http_sd`). It owns no names.

Forms: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config and
https://prometheus.io/docs/prometheus/latest/http_sd/. A list is taken whole or not at all: one mistake in it, and the
last good one stays.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from monitor.errors import MonitorError
from monitor.launch.redact import HIDDEN, redact_url
from monitor.model.document import shown

#: Said in each request to an endpoint, as Prometheus does: how often we ask, so that it may plan for it.
REFRESH_HEADER = "X-Prometheus-Refresh-Interval-Seconds"
#: Largest list (bytes): some 100,000 servers.
SIZE_LIMIT = 32 * 1024**2
#: Values of one YAML file, each counted wherever an alias repeats it.
_MOST_VALUES = 2_000_000
#: Host and port alone: nothing of a URL before them or after.
_ADDRESS = re.compile(r"[^\s/?#@\\]+")
_LOGIN = re.compile(r"[^/@'\"]+@")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


class DiscoveryError(MonitorError):
    """A list of servers could not be had; the last one stays."""


@dataclass(frozen=True, slots=True)
class Found:
    """One server of a list: `host:port`, and the labels of its group. Labels with `__` in front are for us alone."""

    address: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Labels with half a character (JSON can hold one) would be carried by no page, terminal or message."""
        whole = {name: _HALF_CHARACTER.sub("\ufffd", value) for name, value in self.labels.items()}
        object.__setattr__(self, "labels", whole)

    @property
    def base_url(self) -> str:
        """Where it is asked."""
        return f"{self.labels.get('__scheme__') or 'http'}://{self.address}"

    @property
    def metrics_url(self) -> str:
        """Its metrics page."""
        path = self.labels.get("__metrics_path__") or "/metrics"
        return f"{self.base_url}{path if path.startswith('/') else '/' + path}"

    @property
    def shown_labels(self) -> dict[str, str]:
        """Labels for people: without those for us."""
        return {name: value for name, value in self.labels.items() if not name.startswith("__")}


def read_files(patterns: Iterable[str | Path]) -> tuple[Found, ...]:
    """The servers of all files that match; the last part of a pattern may have a `*`. Raises DiscoveryError."""
    found: list[Found] = []
    for pattern in patterns:
        paths = sorted(glob.glob(str(pattern))) if "*" in str(pattern) else [str(pattern)]
        for path in map(Path, paths):
            try:
                with path.open("rb") as file:
                    raw = file.read(SIZE_LIMIT + 1)
                if len(raw) > SIZE_LIMIT:
                    raise DiscoveryError(f"{path}: more than {SIZE_LIMIT} bytes")
                tree = json.loads(raw.decode()) if path.suffix == ".json" else _yaml(raw.decode())
            except OSError as error:
                raise DiscoveryError(f"{path}: {error.strerror}") from error
            except (ValueError, RecursionError, yaml.YAMLError) as error:
                kind = "JSON" if path.suffix == ".json" else "YAML"
                raise DiscoveryError(f"{path}: is not {kind} ({' '.join(str(error).split())[:200]})") from error
            found += parse_groups(tree if tree is not None else [], str(path))
    return tuple(found)


class _Words(yaml.SafeLoader):
    """Every plain word is a text, as Prometheus takes labels (`rack: 12`); only merging and nothing are known."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class has it
        "<": [("tag:yaml.org,2002:merge", re.compile(r"<<"))],
        **{first: [("tag:yaml.org,2002:null", re.compile(r"(?:~|null)?"))] for first in ("~", "n", "")},
    }


def _yaml(text: str) -> object:
    """The value of a YAML text. Raises YAMLError, or ValueError where aliases make it too large."""
    loader = _Words(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        left, values = [node], 0
        while left:
            values += 1
            if values > _MOST_VALUES:
                raise ValueError(f"more than {_MOST_VALUES} values, with what aliases repeat")
            one = left.pop()
            for below in one.value if isinstance(one, yaml.CollectionNode) else ():
                left += below if isinstance(below, tuple) else (below,)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def changed_at(patterns: Iterable[str | Path]) -> tuple[tuple[str, int, int], ...]:
    """What tells that files have changed: names, times of change and sizes of those that are there."""
    marks = []
    for pattern in patterns:
        for path in sorted(glob.glob(str(pattern))):
            try:
                stat = Path(path).stat()
            except OSError:
                continue
            marks.append((path, stat.st_mtime_ns, stat.st_size))
    return tuple(marks)


def read_answer(url: str, status: int, content_type: str, body: bytes) -> tuple[Found, ...]:
    """The servers that an endpoint lists. Raises DiscoveryError, which shows no token of the URL."""
    url = redact_url(url)
    if status != 200:
        raise DiscoveryError(f"{url}: answers {status}, expected 200")
    if content_type.split(";")[0].strip().lower() != "application/json":
        raise DiscoveryError(f"{url}: content type {content_type!r}, expected application/json")
    try:
        return tuple(parse_groups(json.loads(body), url))
    except (ValueError, RecursionError) as error:
        raise DiscoveryError(f"{url}: is not JSON ({error})") from error


def parse_groups(tree: object, where: str) -> list[Found]:
    """The servers of `[{"targets": ["host:port"], "labels": {"name": "value"}}]`. Raises DiscoveryError."""
    if not isinstance(tree, list):
        raise DiscoveryError(f"{where}: found {_kind(tree)}, expected a list of groups")
    found: list[Found] = []
    for number, group in enumerate(tree):
        place = f"{where}: group {number}"
        if not isinstance(group, Mapping):
            raise DiscoveryError(f"{place}: found {_kind(group)}, expected `targets` and `labels`")
        labels = group.get("labels") or {}
        targets = group.get("targets") or []
        if not isinstance(labels, Mapping):
            raise DiscoveryError(f"{place}: labels are {shown(labels)}, expected names and texts")
        for name, value in labels.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise DiscoveryError(f"{place}: label {shown(name)} is {shown(value)}, expected a text")
        if (labels.get("__scheme__") or "http") not in ("http", "https"):
            raise DiscoveryError(f"{place}: __scheme__ is {shown(labels['__scheme__'])}, expected http or https")
        if not isinstance(targets, Sequence) or isinstance(targets, str):
            raise DiscoveryError(f"{place}: targets {shown(targets)}, expected a list of host:port")
        for target in targets:
            if not isinstance(target, str) or not target.isprintable() or not _ADDRESS.fullmatch(target.strip()):
                what = _LOGIN.sub(f"{HIDDEN}@", shown(target))
                raise DiscoveryError(f"{place}: target {what}, expected host:port without scheme or path")
            found.append(Found(target.strip(), dict(labels)))
    return found


def _kind(value: object) -> str:
    return {dict: "a mapping", str: "text", type(None): "nothing"}.get(type(value), type(value).__name__)
