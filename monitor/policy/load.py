"""Rule files to rules: every mistake of every file at once. It reads texts, not files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from monitor.errors import ConfigError, Problem
from monitor.model.document import Document, Keys, Path, one_of, parse_document
from monitor.policy import schema
from monitor.policy.condition import BadCondition, Condition, compile_condition
from monitor.policy.rule import AlertRule, Inhibition, RuleSet, ScopeKind, TuneRule
from monitor.policy.rule_builder import RuleBuilder

M = TypeVar("M", bound=BaseModel)

#: Parameters that a configuration may override by rule, as `RULE.PARAMETER`.
PARAMETERS = {"window": "window_seconds", "for": "for_seconds", "keep_firing_for": "keep_firing_for_seconds"}


def load_rules(sources: Mapping[str, str], vocabulary: Mapping[str, str]) -> RuleSet:
    """The rules of `sources` (file name to text), in order, over the signals of `vocabulary` (name to kind).

    Raises ConfigError with every mistake in every file: place, rule, what was found and what is allowed.
    """
    reader = _Reader(vocabulary)
    for file, text in sources.items():
        before = len(reader.found)
        try:
            reader.read(parse_document(text, file))
        except ConfigError as error:
            reader.found += error.problems
        reader.found[before:] = sorted(reader.found[before:], key=_place)
    if reader.found:
        raise ConfigError(reader.found)
    return RuleSet(tuple(reader.alerts), tuple(reader.tunes), tuple(reader.inhibitions))


def _place(problem: Problem) -> tuple[int, ...]:
    return tuple(int(part) for part in problem.file.rsplit(":", 2)[1:] if part.isdigit())


def with_parameters(rules: RuleSet, parameters: Mapping[str, float], file: str = "rules.parameters") -> RuleSet:
    """`rules` with settings such as `raise-tokens.window` replaced (seconds).

    Raises ConfigError for a rule or a parameter that does not exist, and for a window of 0.
    """
    names = {rule.name: rule for rule in rules}
    changes: dict[str, dict[str, Any]] = {}
    found = []
    for key, value in parameters.items():
        name, _, parameter = key.rpartition(".")
        rule = names.get(name)
        if rule is None:
            found.append(Problem(key, f"the rule {name!r}", one_of(name, sorted(names)), file))
        elif parameter not in PARAMETERS or not hasattr(rule, PARAMETERS[parameter]):
            allowed = [p for p, attribute in PARAMETERS.items() if hasattr(rule, attribute)]
            found.append(Problem(key, f"the parameter {parameter!r}", one_of(parameter, allowed), file))
        elif parameter == "window" and value <= 0:
            found.append(Problem(key, f"{value:g}s", "a window of more than 0s", file))
        else:
            changes.setdefault(name, {})[PARAMETERS[parameter]] = value
    if found:
        raise ConfigError(found)
    return replace(
        rules,
        alerts=tuple(replace(rule, **changes.get(rule.name, {})) for rule in rules.alerts),
        tunes=tuple(replace(rule, **changes.get(rule.name, {})) for rule in rules.tunes),
    )


class _Reader:
    """Collects the rules and the mistakes of one file after the other."""

    def __init__(self, vocabulary: Mapping[str, str]) -> None:
        self.vocabulary = vocabulary
        self.alerts: list[AlertRule] = []
        self.tunes: list[TuneRule] = []
        self.inhibitions: list[Inhibition] = []
        self.found: list[Problem] = []
        self._seen: dict[str, str] = {}

    def read(self, document: Document) -> None:
        """Add the rules of one file."""
        keys: Keys = {(): schema.keys_of(schema.FileModel), ("inhibit_rules",): schema.keys_of(schema.InhibitModel)}
        model = self._check(schema.FileModel, document, (), keys)
        value = document.value if isinstance(document.value, dict) else {}
        for entry in model.inhibit_rules if model else ():
            self.inhibitions.append(
                Inhibition(
                    tuple(entry.source_matchers), tuple(entry.target_matchers), tuple(entry.equal),
                    pending=entry.pending, after_seconds=entry.after,
                )
            )
        groups = value.get("groups")
        for i, group in enumerate(groups if isinstance(groups, list) else ()):
            path: Path = ("groups", i)
            self._check(schema.GroupModel, document, path, {(): schema.keys_of(schema.GroupModel)})
            rules = group.get("rules") if isinstance(group, dict) else None
            for j, rule in enumerate(rules if isinstance(rules, list) else ()):
                self._rule(document, (*path, "rules", j), rule, str(group.get("name", "")))

    def _check(
        self, model: type[M], document: Document, path: Path, keys: Keys, name: str = ""
    ) -> M | None:
        value = document.value
        for part in path:
            value = value[part]
        try:
            return model.model_validate(value)
        except ValidationError as error:
            self.found += document.problems(error, path, keys, name)
            return None

    def _rule(self, document: Document, path: Path, raw: object, set_name: str) -> None:
        kinds = [kind for kind in ("alert", "tune") if isinstance(raw, dict) and kind in raw]
        if len(kinds) != 1:
            found = "both" if kinds else None
            expected = "a rule with either `alert: NAME` or `tune: NAME`"
            self.found.append(document.problem(path, expected, found=found))
            return
        kind = kinds[0]
        assert isinstance(raw, dict)
        name = f"rule {raw[kind]}" if isinstance(raw[kind], str) else ""
        model_type: type[schema.AlertModel | schema.TuneModel] = (
            schema.AlertModel if kind == "alert" else schema.TuneModel
        )
        keys: Keys = {(): schema.keys_of(model_type), ("do",): schema.keys_of(schema.DoModel)}
        model = self._check(model_type, document, path, keys, name)
        builder = RuleBuilder(document, path, name, self.vocabulary, self.found)
        if not model:
            self._condition(document, path, raw.get("when"), name)
            builder.check_names(raw)
            return
        where = f"{document.file}:{document.mark(path).line}"
        rule_name = model.alert if isinstance(model, schema.AlertModel) else model.tune
        if rule_name in self._seen:
            expected = f"a name of its own (the first {rule_name} is at {self._seen[rule_name]})"
            self.found.append(document.problem((*path, kind), expected, name=name, below=len(path)))
        self._seen.setdefault(rule_name, where)
        condition = self._condition(document, path, model.when, name)
        common = builder.common(model, rule_name, set_name, where)
        if isinstance(model, schema.AlertModel):
            builder.check_alert(model)
            if condition:
                self.alerts.append(
                    AlertRule(
                        **common, when=condition, scope=ScopeKind(model.scope),
                        keep_firing_for_seconds=model.keep_firing_for,
                    )
                )
            return
        change = builder.change(model)
        if condition and change:
            self.tunes.append(
                TuneRule(**common, when=condition, scope=ScopeKind.GROUP, change=change, guard=model.guard)
            )

    def _condition(self, document: Document, path: Path, when: object, name: str) -> Condition | None:
        if not isinstance(when, str):
            return None
        try:
            return compile_condition(when, self.vocabulary)
        except BadCondition as error:
            for mistake in error.mistakes:
                line = f"line {mistake.line}, " if mistake.line > 1 else ""
                named = f"{name}: when ({line}character {mistake.column})"
                problem = document.problem((*path, "when"), mistake.expected, found=mistake.found)
                self.found.append(replace(problem, path=named))
            return None
