"""From a history as plain data to the drawings of a page: which charts there are, and what is marked on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup

from monitor.model.rollout import ending
from monitor.show.figures import figure
from monitor.show.lines import Chart, Line, Mark, line_chart, summary
from monitor.show.small import band_svg


@dataclass(frozen=True, slots=True)
class Drawing:
    """One chart ready for a page: its title, what it says in words, its lines' names, the drawing itself."""

    title: str
    said: str
    lines: tuple[str, ...]
    svg: Markup


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A chart by the names of its figures; `form` as in `monitor.show.figures`."""

    title: str
    form: str
    figures: tuple[tuple[str, str], ...]
    floor: float | None = None
    ceiling: float | None = None


#: Charts of a history, in the order in which people ask.
_CHARTS = (
    _Wanted("Acceptance rate", "share", (("acceptance_rate", "accepted of drafted tokens"),), 0.0, 1.0),
    _Wanted("Acceptance length", "number", (("acceptance_length", "tokens per draft, bonus included"),), 1.0),
    _Wanted("Throughput", "rate", (("generation_tokens_per_second", "generated tokens per second"),), 0.0),
    _Wanted("Engine step", "time", (("step_seconds", "duration of one step"),), 0.0),
    _Wanted("Requests", "rate", (("running", "running"), ("waiting", "waiting")), 0.0),
    _Wanted("KV cache", "share", (("kv_usage", "in use"),), 0.0, 1.0),
    _Wanted("Time to first token", "time", (("time_to_first_token_seconds_p95", "95th percentile"),), 0.0),
    _Wanted("Time per output token", "time", (("time_per_output_token_seconds_p95", "95th percentile"),), 0.0),
    _Wanted("Lengths", "count", (("mean_prompt_tokens", "prompt"), ("mean_output_tokens", "answer")), 0.0),
)


def drawings(history: Mapping[str, Any], target: float) -> list[Drawing]:
    """The charts of a history; one whose figures are nowhere known is left out."""
    start, end = _moment(history["since"]), _moment(history["until"])
    rows = history["rows"]
    times = [_moment(row["at"]) for row in rows]
    marks = marks_of(history)
    found = []
    for wanted in _CHARTS:
        lines = [Line(name, [row[key] for row in rows]) for key, name in wanted.figures]
        if all(value is None for line in lines for value in line.values):
            continue
        chart = Chart(
            name=wanted.title, form=wanted.form, start=start, end=end, times=times, lines=lines, marks=marks,
            floor=wanted.floor, ceiling=wanted.ceiling, target=target if wanted.title == "Acceptance rate" else None,
        )
        names = tuple(line.name for line in lines)
        found.append(Drawing(wanted.title, summary(chart), names, Markup(line_chart(chart))))
    return found


def marks_of(history: Mapping[str, Any]) -> tuple[Mark, ...]:
    """Changes by how they ended, and pages that fired."""
    changes = history["changes"]
    marks = [Mark(_moment(one["began"]), one["to"].split(",")[-1].strip(), ending(one["state"]).value)
             for one in changes]
    marks += [Mark(_moment(a["since"]), a["name"], "alert") for a in history["alerts"] if a["severity"] == "page"]
    return tuple(marks)


def budget_drawings(course: Mapping[str, Any]) -> list[Drawing]:
    """The charts of one objective: its budget as it was spent, and how fast; rollouts and its alerts are marked."""
    rows = course["rows"]
    times = [_moment(row["at"]) for row in rows]
    start = times[0] - timedelta(seconds=course["step_seconds"])
    marks = [Mark(_moment(one["created_at"]), one["to"].split(",")[-1].strip(), ending(one["state"]).value)
             for one in course["rollouts"]]
    marks += [Mark(_moment(one["since"]), one["severity"], "alert") for one in course["alerts"]]
    left, burn = ([row[key] for row in rows] for key in ("error_budget_remaining", "burn_rate"))
    lowest = min((value for value in left if value is not None), default=0.0)
    found = []
    for title, words, form, values, floor, ceiling, target in (
        # What is overspent many times over would leave nothing to see of the rest.
        ("Budget left", "of the error budget", "share", left, max(min(lowest, 0.0), -1.0), 1.0, 0.0),
        ("Burn rate", "1 spends it in the period", "number", burn, 0.0, None, 1.0),
    ):
        chart = Chart(
            name=f"{title} of {course['name']}", form=form, start=start, end=times[-1], times=times,
            lines=[Line(words, values)], marks=marks, floor=floor, ceiling=ceiling, target=target,
        )
        found.append(Drawing(title, summary(chart), (words,), Markup(line_chart(chart))))
    return found


def band(history: Mapping[str, Any]) -> Markup:
    """Which setting was in force when."""
    segments = [(_moment(one["from"]), _moment(one["until"]), one["setting"]) for one in history["settings"]]
    return Markup(band_svg("Setting", _moment(history["since"]), _moment(history["until"]), segments))


def numbers(history: Mapping[str, Any], most: int = 24) -> list[list[str]]:
    """The newest rows of a history as text, for those who read rather than look."""
    rows: Sequence[Mapping[str, Any]] = history["rows"][-most:]
    return [
        [
            row["at"][:16].replace("T", " "),
            *(figure(row[key], wanted.form) for wanted in _CHARTS for key, _ in wanted.figures),
        ]
        for row in reversed(rows)
    ]


#: Heads of the columns of `numbers`.
NUMBER_HEADS = (
    "until (UTC)",
    *(wanted.title if len(wanted.figures) == 1 else f"{wanted.title}: {name}" for wanted in _CHARTS
      for _, name in wanted.figures),
)  # fmt: skip


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
