"""How templates show values: filters and tests of the pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from monitor.model.rollout import ending
from monitor.show import figures
from monitor.show.small import bar_svg, spark_svg


def _ago(stamp: str | None, at: str) -> str:
    return figures.ago(stamp, datetime.fromisoformat(at))


def _spark(values: Sequence[float | None] | None, name: str, form: str = "share") -> Markup:
    return Markup(spark_svg(name, values or (), form, low=0.0, high=1.0))


def _bar(value: float | None, name: str) -> Markup:
    return Markup(bar_svg(name, value))


def _level(slo: dict[str, Any]) -> str:
    """How worried to be about an objective."""
    left = slo["error_budget_remaining"]
    if slo["report_only"] or left is None:
        return ""
    return "bad" if slo["burning"] or left <= 0 else "warn" if left < 0.25 else "ok"


FILTERS: dict[str, Callable[..., Any]] = {
    "share": figures.share,
    "signed": figures.signed,
    "number": figures.number,
    "count": figures.count,
    "time": figures.seconds,
    "rate": figures.rate,
    "span": figures.span,
    "spent": figures.until_spent,
    "stamp": figures.stamp,
    "ago": _ago,
    "spark": _spark,
    "bar": _bar,
    "level": _level,
    "gain": lambda view: figures.gain(view["gain"], view["gain_low"], view["gain_high"]),
    "ending": ending,
    "words": lambda text: str(text).replace("_", " "),
}
