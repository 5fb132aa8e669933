"""From series of a Prometheus-compatible store back to the pages they were scraped from, one for each scrape.

All series of one scrape have its time. What the store added (`instance`, `job`, labels of the target) is taken off
again: those are the labels of the target's `up`. It knows no names of engines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


def target_pages(
    series: Iterable[ApiSeries], instance_label: str, apart_seconds: Callable[[str], float]
) -> dict[str, list[TargetPage]]:
    """The pages of each instance, oldest first. A target without `up` gives none: nobody can tell its labels.

    `apart_seconds`: how far from those of one target the samples of another of that instance must lie to be more than
    a second scrape of the same pages.
    """
    found = list(series)
    targets = _targets(found, instance_label, apart_seconds)
    lines: dict[str, dict[float, list[str]]] = {name: defaultdict(list) for name in targets}
    # In one order always: a reader then meets the same lines at the same places.
    for head, instance, target, one in sorted(_own(found, targets, instance_label), key=lambda it: it[:2]):
        for at, value in one.samples:
            if at in target.ups:
                lines[instance][at].append(f"{head} {value}")
    return {
        name: [
            TargetPage(at, ("\n".join(lines[name].get(at, ["# no series"])) + "\n").encode() if is_up else None)
            for at, is_up in sorted((at, is_up) for target in own for at, is_up in target.ups.items())
        ]
        for name, own in targets.items()
    }


def _targets(
    series: Iterable[ApiSeries], instance_label: str, apart_seconds: Callable[[str], float]
) -> dict[str, list[_Target]]:
    """Targets by instance. Labels that were changed make another target, which goes on where the one before it ended.

    Of several that are scraped side by side (two jobs, or replicas of the store) the first by its labels counts.
    """
    found: dict[str, list[_Target]] = {}
    ups = [one for one in series if one.labels.get("__name__") == UP and one.labels.get(instance_label)]
    for one in sorted(ups, key=lambda it: sorted(it.labels.items())):
        labels = {name: value for name, value in one.labels.items() if name != "__name__"}
        own = found.setdefault(labels[instance_label], [])
        known = sorted(at for target in own for at in target.ups)
        apart = apart_seconds(labels[instance_label])
        own.append(_Target(labels, {at: float(up) > 0 for at, up in one.samples if _is_apart(known, at, apart)}))
    return found


def _is_apart(known: Sequence[float], at: float, apart: float) -> bool:
    """Whether no moment of `known`, which is in order, lies nearer to `at`."""
    after = bisect_left(known, at)
    return all(abs(at - near) >= apart for near in known[max(0, after - 1) : after + 1])


def _own(
    series: Iterable[ApiSeries], targets: Mapping[str, Sequence[_Target]], instance_label: str
) -> Iterator[tuple[str, str, _Target, ApiSeries]]:
    """Each series of a target with its line head as the target printed it."""
    for one in series:
        instance, name = one.labels.get(instance_label, ""), one.labels.get("__name__", "")
        for target in targets.get(instance, ()) if name != UP else ():
            if any(one.labels.get(k) != v for k, v in target.labels.items()):
                continue
            # Labels that the target printed under a name that the store wanted for itself.
            own = {
                label.removeprefix(_EXPORTED) if label.removeprefix(_EXPORTED) in target.labels else label: value
                for label, value in one.labels.items()
                if label != "__name__" and label not in target.labels
            }
            yield f"{name}{_braces(own)}", instance, target, one


def _braces(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items())) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
