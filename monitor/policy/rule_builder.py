"""What only the vocabulary can tell about a rule whose shape is right: its signals, its change, its texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.errors import Problem
from monitor.model.alert import Severity
from monitor.model.document import Document, Path
from monitor.model.outcome import ChangeKind, TuneChange
from monitor.policy import schema
from monitor.policy.condition import signal_expected
from monitor.policy.condition_check import VECTOR
from monitor.policy.rule import Need

_SAMPLES = ".samples"


class RuleBuilder:
    """Turns one checked rule model into the fields of a rule, and checks what only the vocabulary can tell."""

    def __init__(
        self, document: Document, path: Path, name: str, vocabulary: Mapping[str, str], found: list[Problem]
    ) -> None:
        self._document = document
        self._path = path
        self._name = name
        self._vocabulary = vocabulary
        self._found = found

    def common(self, model: schema.RuleModel, name: str, set_name: str, where: str) -> dict[str, Any]:
        """The fields that every rule has."""
        need = tuple(self._need(key, minimum) for key, minimum in model.need.items())
        for i, signal in enumerate(model.show):
            self._known(signal, ("show", i))
        shown = list(model.show)
        for key, template in model.annotations.items():
            for value in template.values:
                if self._known_value(value, ("annotations", key)):
                    shown.append(value.partition("[")[0])
        return {
            "name": name, "set_name": set_name, "where": where, "window_seconds": model.window,
            "for_seconds": model.for_, "need": need, "show": tuple(dict.fromkeys(shown)), "labels": model.labels,
            "annotations": model.annotations,
        }

    def check_names(self, raw: Mapping[str, object]) -> None:
        """Check the signals named by a rule whose shape is wrong elsewhere, so that all mistakes are told together."""
        need, show = raw.get("need"), raw.get("show")
        for key in need if isinstance(need, Mapping) else ():
            self._known(str(key).removesuffix(_SAMPLES), ("need", str(key)))
        for i, signal in enumerate(show if isinstance(show, list) else ()):
            if isinstance(signal, str):
                self._known(signal, ("show", i))

    def check_alert(self, model: schema.AlertModel) -> None:
        """An alert must say how loud it is and what happened."""
        severities = [str(s) for s in Severity]
        severity = model.labels.get("severity")
        if severity not in severities:
            found = "nothing" if severity is None else repr(severity)
            self._mistake(("labels", "severity"), f"one of {', '.join(severities)}", found)
        if not getattr(model.annotations.get("summary"), "source", ""):
            self._mistake(("annotations", "summary"), "a sentence that says what happened", "nothing")

    def change(self, model: schema.TuneModel) -> TuneChange | None:
        """What the rule asks for."""
        asked = model.do.num_speculative_tokens
        if (asked is None) == (model.do.tuner is None):
            self._mistake(("do",), "either num_speculative_tokens or tuner", "both" if asked else "neither")
            return None
        if model.do.tuner:
            return TuneChange(ChangeKind.TUNER)
        assert isinstance(asked, TuneChange)
        return asked

    def _need(self, key: str, minimum: float) -> Need:
        signal = key.removesuffix(_SAMPLES)
        if self._known(signal, ("need", key)) and signal == key and self._vocabulary[signal] == VECTOR:
            self._mistake(("need", key), f"a signal with one value, or {key}{_SAMPLES}", f"the vector {key}")
        return Need(signal, minimum, of_samples=key.endswith(_SAMPLES))

    def _known_value(self, value: str, path: Path) -> bool:
        signal, index, _ = value.partition("[")
        if not self._known(signal, path):
            return False
        if bool(index) != (self._vocabulary[signal] == VECTOR):
            expected = "an index such as [0] after a signal with one value per position, and after no other"
            self._mistake(path, expected, f"the value {value}")
            return False
        return True

    def _known(self, signal: str, path: Path) -> bool:
        if signal in self._vocabulary:
            return True
        self._mistake(path, signal_expected(signal, self._vocabulary), f"the name {signal!r}")
        return False

    def _mistake(self, path: Path, expected: str, found: str) -> None:
        below = len(self._path)
        problem = self._document.problem((*self._path, *path), expected, found=found, name=self._name, below=below)
        self._found.append(problem)
