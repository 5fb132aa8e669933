"""The HTTP API of Prometheus, as Thanos, Mimir and VictoriaMetrics have it too: raw samples, and values at steps.

https://prometheus.io/docs/prometheus/latest/querying/api/. A range selector as an instant query gives samples as they
were scraped, with their own times and without those marked stale; VictoriaMetrics answers the same way.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from monitor.errors import ScrapeError
from monitor.scrape.client import ServerClient

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApiSeries:
    """One series: all its labels, `__name__` among them, and samples as (unix seconds, value as printed)."""

    labels: Mapping[str, str]
    samples: tuple[tuple[float, str], ...]


class PrometheusApi:
    """One API. Raises ScrapeError, with what it answered, where a query brings no result."""

    def __init__(self, client: ServerClient, url: str, *, deadline_seconds: float) -> None:
        self._client = client
        self._url = url
        self._deadline = deadline_seconds
        self._warned: set[str] = set()
        #: What its clock showed in the newest answer; None where that does not say.
        self.said_at: datetime | None = None
        #: Whether the newest answer is one of a part of its stores only.
        self.is_partial = False

    def newest(self, selector: str, at: datetime) -> list[ApiSeries]:
        """The value of each series at that moment, none where it is stale."""
        return self._ask("query", {"query": selector, "time": _time(at)})

    def raw(self, selector: str, at: datetime, seconds: float) -> list[ApiSeries]:
        """Every sample of the `seconds` until `at`."""
        return self._ask("query", {"query": f"{selector}[{math.ceil(seconds)}s]", "time": _time(at)})

    def steps(self, selector: str, start: datetime, end: datetime, step_seconds: int) -> list[ApiSeries]:
        """The value of each series at start, start + step, … end."""
        form = {"query": selector, "start": _time(start), "end": _time(end), "step": f"{step_seconds}s"}
        return self._ask("query_range", form)

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def _ask(self, what: str, form: Mapping[str, str]) -> list[ApiSeries]:
        url = f"{self._url}/api/v1/{what}"
        answer = self._client.post_form(url, form, deadline_seconds=self._deadline)
        self.said_at = _date(answer.headers.get("Date", ""))
        try:
            tree = json.loads(answer.body)
        except ValueError:
            raise ScrapeError(f"{url}: answers {answer.status} without JSON, expected Prometheus' API") from None
        if not isinstance(tree, dict) or tree.get("status") != "success":
            said = tree if isinstance(tree, dict) else {}
            told = f"{said.get('errorType', 'error')}: {said.get('error', '')}"
            raise ScrapeError(f"{url}: answers {answer.status}, {told[:300]}")
        # Thanos warns of stores that did not answer, VictoriaMetrics has a mark of its own.
        warnings = [*(tree.get("warnings") or ()), *(["the answer is partial"] if tree.get("isPartial") else [])]
        self.is_partial = bool(warnings)
        for warning in warnings:
            if str(warning) not in self._warned:
                self._warned.add(str(warning))
                log.warning("the API warns url=%s: %s", url, str(warning)[:300])
        try:
            return [_series(entry) for entry in tree["data"]["result"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ScrapeError(f"{url}: an answer of another form than Prometheus' ({error!r})") from None


def _series(entry: Mapping[str, object]) -> ApiSeries:
    labels = {str(name): str(value) for name, value in entry["metric"].items()}  # type: ignore[attr-defined]
    samples = entry["values"] if "values" in entry else [entry["value"]]
    return ApiSeries(labels, tuple((float(at), str(value)) for at, value in samples))  # type: ignore[attr-defined]


def _date(header: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(header)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _time(moment: datetime) -> str:
    return f"{moment.timestamp():.3f}"


def selector_of(pattern: str, selector: str, label: str = "", values: tuple[str, ...] = ()) -> str:
    """A selector of the series whose name matches `pattern`, within the operator's one, of some values of a label."""
    parts = [f'__name__=~"{_quoted(pattern)}"']
    inner = selector.strip().removeprefix("{").removesuffix("}").strip().strip(",")
    parts += [inner] if inner else []
    if values:
        parts.append(f'{label}=~"{_quoted("|".join(map(_literal, values)))}"')
    return "{" + ",".join(parts) + "}"


def _literal(value: str) -> str:
    """A value as a regular expression that matches it alone (RE2 takes no escapes of letters)."""
    return "".join(c if c.isalnum() or c in "_-/:@ " or ord(c) > 127 else f"\\{c}" for c in value)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
