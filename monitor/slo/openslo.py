"""OpenSLO v1 documents as SLO files of ours; https://github.com/OpenSLO/OpenSLO. It validates only what it translates.

An OpenSLO document says where its numbers come from in words of its own source. Ours are `type: acceptd` with
`spec: {indicator: …}`, the indicators of `monitor.model.slo`. Alert policies are not read: acceptd alerts by its burn
windows. Documents of other kinds (Service, AlertPolicy …) are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from monitor.errors import Problem
from monitor.model.document import Document, Mark, Path, one_of
from monitor.model.duration import format_duration
from monitor.model.slo import Indicator

API_VERSION = "openslo/v1"
SOURCE = "acceptd"

#: Kinds of documents, https://github.com/OpenSLO/OpenSLO#object-types; those that hold no objective are passed over.
_KINDS = (
    "SLO", "SLI", "DataSource", "Service", "AlertPolicy", "AlertCondition", "AlertNotificationTarget",
)  # fmt: skip

#: Days of the postfixes of OpenSLO's `duration-shorthand` that have a fixed length.
_DAYS = {"d": 1.0, "w": 7.0, "h": 1 / 24, "m": 1 / 1440}

#: Keys of `spec` of a metric source of ours that are taken over as they are.
_OWN_KEYS = ("group", "server", "model", "minimum_events", "windows", "report_only")


def is_openslo(document: Document) -> bool:
    """Whether a document says that it is OpenSLO's, of whatever version."""
    value = document.value
    return isinstance(value, dict) and str(value.get("apiVersion", "")).startswith("openslo")


def translate(documents: Sequence[Document]) -> tuple[Document, list[Problem]]:
    """The SLOs of OpenSLO documents of one file as one document of our form, each key where it came from.

    With every mistake that keeps an SLO from being translated; the values themselves are checked by `load_slos`.
    """
    # An empty one is what stands behind a last `---`.
    documents = [document for document in documents if document.value is not None]
    named: dict[str, dict[str, Document]] = {kind: {} for kind in _KINDS}
    for document in filter(is_openslo, documents):
        named.get(str(document.value.get("kind")), {})[str(_at(document, ("metadata", "name")))] = document
    found: list[Problem] = []
    entries: list[dict[str, Any]] = []
    marks: dict[Path, Mark] = {}
    for document in documents:
        if not is_openslo(document):
            found.append(document.problem((), f"apiVersion: {API_VERSION}, as in the other documents of this file"))
        elif document.value.get("apiVersion") != API_VERSION:
            found.append(document.problem(("apiVersion",), API_VERSION))
        elif document.value.get("kind") not in _KINDS:
            found.append(document.problem(("kind",), one_of(str(document.value.get("kind")), _KINDS)))
        elif document.value["kind"] == "SLO":
            translation = _Slo(document, named["SLI"], named["DataSource"], found)
            for entry, places in translation.entries():
                index = len(entries)
                entries.append(entry)
                marks[("slos", index)] = document.mark(("metadata", "name"))
                marks |= {("slos", index, key): document.mark(path) for key, path in places.items()}
    if not entries and not found:
        found.append(documents[0].problem((), "a document of `kind: SLO`", found="none"))
    return Document(documents[0].file, {"slos": entries}, marks), found


def _at(document: Document, path: Path) -> Any:
    value = document.value
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


class _Slo:
    """One SLO document, and the mistakes found while it is read."""

    def __init__(
        self, document: Document, indicators: dict[str, Document], sources: dict[str, Document], found: list[Problem]
    ) -> None:
        self._document = document
        self._indicators = indicators
        self._sources = sources
        self._found = found

    def entries(self) -> Iterator[tuple[dict[str, Any], dict[str, Path]]]:
        """An entry of our form for each objective, with the path of each key; none where that is impossible."""
        source = self._source()
        period = self._period()
        if source is None or period is None:
            return
        indicator, own, is_threshold = source
        objectives = _at(self._document, ("spec", "objectives"))
        if not isinstance(objectives, list) or not objectives or not all(isinstance(o, dict) for o in objectives):
            self._mistake(("spec", "objectives"), "a list of objectives")
            return
        if not self._is_method_right(indicator):
            return
        name = _at(self._document, ("metadata", "name"))
        for i, objective in enumerate(objectives):
            path: Path = ("spec", "objectives", i)
            places: dict[str, Path] = {"name": ("metadata", "name"), "period": ("spec", "timeWindow")}
            entry: dict[str, Any] = {"name": name if len(objectives) == 1 else f"{name}-{i + 1}", "period": period}
            entry |= {"indicator": indicator, **own, "description": _at(self._document, ("spec", "description")) or ""}
            places["description"] = ("spec", "description")
            if not self._target(objective, path, entry, places):
                continue
            if is_threshold and not self._threshold(Indicator(indicator), objective, path, entry, places):
                continue
            if "timeSliceWindow" in objective:
                entry["slice"] = _slice(objective["timeSliceWindow"])
                places["slice"] = (*path, "timeSliceWindow")
            yield entry, places

    def _source(self) -> tuple[str, dict[str, Any], bool] | None:
        """Indicator, our own keys, and whether it is compared with a threshold; None where it is not ours."""
        document, base = self._document, ("spec", "indicator", "spec")
        reference = _at(document, ("spec", "indicatorRef"))
        if reference is not None:
            if str(reference) not in self._indicators:
                expected = one_of(str(reference), list(self._indicators)) if self._indicators else "an SLI in this file"
                self._mistake(("spec", "indicatorRef"), expected)
                return None
            return self._metric(self._indicators[str(reference)], ("spec",))
        return self._metric(document, base)

    def _metric(self, document: Document, base: Path) -> tuple[str, dict[str, Any], bool] | None:
        threshold: Path = (*base, "thresholdMetric", "metricSource")
        ratios: list[Path] = [(*base, "ratioMetric", part, "metricSource") for part in ("good", "bad", "raw", "total")]
        paths = [path for path in (threshold, *ratios) if isinstance(_at(document, path), dict)]

        def mistake(at: Path, expected: str, found: str | None = None) -> None:
            self._found.append(document.problem(at, expected, found=found))

        if not paths:
            mistake(base, "a thresholdMetric or ratioMetric with a metricSource")
            return None
        for path in paths:
            if self._type(document, path) != SOURCE:
                expected = f"{SOURCE}, with `spec: {{indicator: …}}`: acceptd measures its own servers, no other source"
                mistake((*path, "type"), expected)
                return None
        path, *others = paths
        spec = _at(document, (*path, "spec"))
        for other in others:
            if _at(document, (*other, "spec")) != spec:
                mistake((*other, "spec"), f"what {path[-2]} has: acceptd counts both for one indicator", "another one")
                return None
        indicator = str(spec.get("indicator")) if isinstance(spec, dict) else ""
        if indicator not in set(Indicator):
            mistake((*path, "spec", "indicator"), one_of(indicator, [str(i) for i in Indicator]))
            return None
        for key in spec:
            if key not in ("indicator", *_OWN_KEYS):
                mistake((*path, "spec", key), one_of(key, ["indicator", *_OWN_KEYS]), "an unknown key")
        has_threshold = Indicator(indicator) not in (Indicator.AVAILABILITY, Indicator.UPTIME)
        if has_threshold != (path == threshold):
            kind = "thresholdMetric" if has_threshold else "ratioMetric"
            mistake(path, f"a {kind} for {indicator}", "the other kind of metric")
            return None
        return indicator, {key: spec[key] for key in _OWN_KEYS if key in spec}, has_threshold

    def _type(self, document: Document, path: Path) -> Any:
        """The type of a metric source: its own, or that of the DataSource in this file that it refers to."""
        own = _at(document, (*path, "type"))
        source = self._sources.get(str(_at(document, (*path, "metricSourceRef"))))
        return own if own is not None or source is None else _at(source, ("spec", "type"))

    def _period(self) -> str | None:
        windows = _at(self._document, ("spec", "timeWindow"))
        if windows is None:
            return "30d"
        path: Path = ("spec", "timeWindow", 0)
        if not isinstance(windows, list) or len(windows) != 1 or not isinstance(windows[0], dict):
            self._mistake(("spec", "timeWindow"), "exactly one time window")
            return None
        if windows[0].get("isRolling") is not True:
            self._mistake((*path, "isRolling"), "a rolling window (`isRolling: true`); calendar windows are not kept")
            return None
        text = str(windows[0].get("duration", ""))
        if not text[:-1].isdecimal() or text[-1:] not in _DAYS:
            self._mistake((*path, "duration"), "a duration in days or weeks, such as 28d or 4w")
            return None
        return format_duration(int(text[:-1]) * _DAYS[text[-1]] * 86400.0)

    def _is_method_right(self, indicator: str) -> bool:
        wanted = "Timeslices" if Indicator(indicator).is_sliced else "Occurrences"
        if _at(self._document, ("spec", "budgetingMethod")) == wanted:
            return True
        self._mistake(("spec", "budgetingMethod"), f"{wanted} for {indicator}")
        return False

    def _target(self, objective: dict[str, Any], path: Path, entry: dict[str, Any], places: dict[str, Path]) -> bool:
        percent = objective.get("targetPercent")
        key = "target" if percent is None else "targetPercent"
        target = objective.get("target") if percent is None else percent
        if "target" in objective and "targetPercent" in objective:
            self._mistake(path, "either target or targetPercent", found="both")
            return False
        if isinstance(target, bool) or not isinstance(target, int | float):
            self._mistake((*path, key), "a number")
            return False
        # Rounded, since 99.9 / 100 is 0.9990000000000001.
        entry["objective"] = float(target) if percent is None else round(float(target) / 100.0, 12)
        places["objective"] = (*path, key)
        return True

    def _threshold(
        self, indicator: Indicator, objective: dict[str, Any], path: Path, entry: dict[str, Any],
        places: dict[str, Path],
    ) -> bool:
        wanted = ("lte", "lt") if indicator.is_latency else ("gte", "gt")
        if objective.get("op") not in wanted:
            self._mistake((*path, "op"), f"{' or '.join(wanted)} for {indicator}")
            return False
        value = objective.get("value")
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            self._mistake((*path, "value"), "a number (seconds for latencies)")
            return False
        if indicator.is_latency and value < 0.001:
            self._mistake((*path, "value"), "seconds, from 0.001 on")
            return False
        entry["threshold"] = format_duration(value) if indicator.is_latency else float(value)
        places["threshold"] = (*path, "value")
        return True

    def _mistake(self, path: Path, expected: str, found: str | None = None) -> None:
        name = f"SLO {_at(self._document, ('metadata', 'name'))}"
        self._found.append(self._document.problem(path, expected, found=found, name=name))


def _slice(value: Any) -> Any:
    """A slice in our form; a bare number is minutes in OpenSLO."""
    return f"{value}m" if isinstance(value, int) and not isinstance(value, bool) else value
