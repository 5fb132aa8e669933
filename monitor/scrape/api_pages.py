"""From series of a Prometheus-compatible store back to the pages they were scraped from, one for each scrape.

All series of one scrape have its time. What the store added (`instance`, `job`, labels of the target) is taken off
again: those are the labels of the target's `up`. It knows no names of engines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from monitor.scrape.prometheus_api import ApiSeries

UP = "up"
_EXPORTED = "exported_"


@dataclass(frozen=True, slots=True)
class TargetPage:
    """What one scrape of a target brought, at that unix time; None where the target did not answer."""

    at: float
    body: bytes | None


@dataclass(frozen=True, slots=True)
class _Target:
    labels: Mapping[str, str]
    ups: Mapping[float, bool]


def target_pages(series: Iterable[ApiSeries], instance_label: str) -> dict[str, list[TargetPage]]:
    """The pages of each instance, oldest first. A target without `up` gives none: nobody can tell its labels."""
    found = list(series)
    targets = _targets(found, instance_label)
    lines: dict[str, dict[float, list[str]]] = {name: defaultdict(list) for name in targets}
    # In one order always: a reader then meets the same lines at the same places.
    for head, instance, one in sorted(_own(found, targets, instance_label), key=lambda it: it[:2]):
        for at, value in one.samples:
            lines[instance][at].append(f"{head} {value}")
    return {
        name: [
            TargetPage(at, ("\n".join(lines[name].get(at, ["# no series"])) + "\n").encode() if is_up else None)
            for at, is_up in sorted(target.ups.items())
        ]
        for name, target in targets.items()
    }


def _targets(series: Iterable[ApiSeries], instance_label: str) -> dict[str, _Target]:
    """Targets by instance; of several jobs that scrape the same one, the first by its labels."""
    found: dict[str, _Target] = {}
    ups = [one for one in series if one.labels.get("__name__") == UP and one.labels.get(instance_label)]
    for one in sorted(ups, key=lambda it: sorted(it.labels.items())):
        labels = {name: value for name, value in one.labels.items() if name != "__name__"}
        found.setdefault(labels[instance_label], _Target(labels, {at: float(value) > 0 for at, value in one.samples}))
    return found


def _own(
    series: Iterable[ApiSeries], targets: Mapping[str, _Target], instance_label: str
) -> Iterable[tuple[str, str, ApiSeries]]:
    """Each series of a target with its line head as the target printed it."""
    for one in series:
        instance = one.labels.get(instance_label, "")
        target, name = targets.get(instance), one.labels.get("__name__", "")
        if target is None or name == UP or any(one.labels.get(k) != v for k, v in target.labels.items()):
            continue
        # Labels that the target printed under a name that the store wanted for itself.
        own = {
            label.removeprefix(_EXPORTED) if label.removeprefix(_EXPORTED) in target.labels else label: value
            for label, value in one.labels.items()
            if label != "__name__" and label not in target.labels
        }
        yield f"{name}{_braces(own)}", instance, one


def _braces(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items())) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
