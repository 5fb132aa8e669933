"""Lists of servers in Prometheus' forms: files (`file_sd`) and an HTTP endpoint (`http_sd`). It owns no names.

Forms: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config and
https://prometheus.io/docs/prometheus/latest/http_sd/. A list is taken whole or not at all: one mistake in it, and the
last good one stays.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from monitor.errors import MonitorError

#: Said in each request to an endpoint, as Prometheus does: how often we ask, so that it may plan for it.
REFRESH_HEADER = "X-Prometheus-Refresh-Interval-Seconds"


class DiscoveryError(MonitorError):
    """A list of servers could not be had; the last one stays."""


@dataclass(frozen=True, slots=True)
class Found:
    """One server of a list: `host:port`, and the labels of its group. Labels with `__` in front are for us alone."""

    address: str
    labels: Mapping[str, str] = field(default_factory=dict)

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
                text = path.read_text(encoding="utf-8")
                tree = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
            except OSError as error:
                raise DiscoveryError(f"{path}: {error.strerror}") from error
            except (ValueError, yaml.YAMLError) as error:
                kind = "JSON" if path.suffix == ".json" else "YAML"
                raise DiscoveryError(f"{path}: is not {kind} ({' '.join(str(error).split())[:200]})") from error
            found += parse_groups(tree if tree is not None else [], str(path))
    return tuple(found)


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
    """The servers that an endpoint lists. Raises DiscoveryError."""
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
        if not isinstance(labels, Mapping) or not all(isinstance(value, str) for value in labels.values()):
            raise DiscoveryError(f"{place}: labels {labels!r}, expected names and texts")
        if not isinstance(targets, Sequence) or isinstance(targets, str):
            raise DiscoveryError(f"{place}: targets {targets!r}, expected a list of host:port")
        for target in targets:
            if not isinstance(target, str) or not target.strip() or "/" in target or " " in target.strip():
                raise DiscoveryError(f"{place}: target {target!r}, expected host:port without scheme or path")
            found.append(Found(target.strip(), {str(name): value for name, value in labels.items()}))
    return found


def _kind(value: object) -> str:
    return {dict: "a mapping", str: "text", type(None): "nothing"}.get(type(value), type(value).__name__)
