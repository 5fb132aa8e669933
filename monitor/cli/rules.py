"""Commands for rule files: check, test, replay, show. The first two need neither configuration nor daemon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.advise.catalog import load_catalog
from monitor.advise.issues import load_issues
from monitor.cli.context import Context, file_text
from monitor.cli.looking import Json
from monitor.cli.output import console, print_json, table
from monitor.cli.replaying import rules_replay
from monitor.config.rules import LoadedRules, load_objectives, load_rules_in_force, vocabulary
from monitor.errors import ConfigError, Problem
from monitor.model.document import parse_documents
from monitor.model.duration import format_duration
from monitor.policy.advice import advice
from monitor.policy.load import load_rules
from monitor.policy.rule import AlertRule, Rule, RuleSet, TuneRule
from monitor.policy.rule_test import RuleTestFile, check_rule_test, load_rule_test
from monitor.policy.rule_test_run import RuleTestReport, run_rule_test
from monitor.slo.load import load_slos
from monitor.slo.openslo import is_openslo

rules = typer.Typer(help="Rule files: check, test, replay, show.", no_args_is_help=True, rich_markup_mode=None)
rules.command("replay")(rules_replay)


@dataclass(frozen=True, slots=True)
class _Checked:
    """One file: what it holds in words, what is seldom meant in it, and its mistakes."""

    file: str
    holds: str = ""
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@rules.command("check")
def rules_check(
    files: Annotated[list[Path], typer.Argument(help="Rule files, their tests, SLO files.")], as_json: Json = False
) -> None:
    """Check rule and SLO files: every mistake with its place, and what is allowed but seldom meant."""
    found = [_check(path) for path in files]
    problems = [problem for one in found for problem in one.problems]
    if as_json:
        print_json({
            "ok": not problems,
            "files": [{"file": one.file, "holds": one.holds, "notes": list(one.notes)} for one in found],
            "problems": [_problem_view(problem) for problem in problems],
        })  # fmt: skip
    else:
        for one in found:
            for problem in one.problems:
                console.print(str(problem), style="red", markup=False, soft_wrap=True)
            for note in one.notes:
                console.print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)
            if not one.problems:
                console.print(f"{one.file}: fine ({one.holds})", markup=False)
    if problems:
        raise typer.Exit(2)


def _check(path: Path) -> _Checked:
    file = str(path)
    try:
        text = file_text(path)
        keys = _keys(text, file)
        if keys is None or "slos" in keys:
            return _Checked(file, _count(len(load_slos({file: text})), "objective"))
        if keys & {"models", "pairs", "methods"}:
            return _Checked(file, _count(len(load_catalog(text, file).pairs), "pair"))
        if "issues" in keys:
            return _Checked(file, _count(len(load_issues(text, file)), "known issue"))
        if "rule_files" in keys:
            return _Checked(file, _count(len(_load_test(path)[0].tests), "test"))
        made = load_rules({file: text}, vocabulary())
    except ConfigError as error:
        return _Checked(file, problems=tuple(error.problems))
    holds = [_count(len(made.alerts), "alert"), _count(len(made.tunes), "tuning rule")]
    return _Checked(file, ", ".join(holds), advice(made))


def _keys(text: str, file: str) -> frozenset[str] | None:
    """The keys at the top of a file, by which its kind is known; None for OpenSLO documents."""
    documents = parse_documents(text, file)
    if any(is_openslo(one) for one in documents):
        return None
    return frozenset(key for one in documents if isinstance(one.value, dict) for key in one.value)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _problem_view(problem: Problem) -> dict[str, str]:
    return {name: getattr(problem, name) for name in ("file", "path", "found", "expected")}


@rules.command("test")
def rules_test(
    files: Annotated[list[Path], typer.Argument(help="Test files (*.test.yaml).")], as_json: Json = False
) -> None:
    """Run tests of rules: series in, expected alerts and decisions out. Exit 1 where one is not met."""
    reports: dict[str, RuleTestReport] = {}
    problems: list[Problem] = []
    for path in files:
        if not as_json:
            console.print(f"Unit Testing:  {path}", markup=False)
        try:
            reports[str(path)] = report = _run_test(path)
        except ConfigError as error:
            problems += error.problems
            if not as_json:
                for problem in error.problems:
                    console.print(f"  {problem}", style="red", markup=False, soft_wrap=True)
            continue
        if not as_json:
            _print_report(report)
    failed = [file for file, report in reports.items() if not report.ok]
    if as_json:
        print_json({
            "ok": not failed and not problems,
            "files": [
                {"file": file, "checked": report.checked, "failures": list(report.failures)}
                for file, report in reports.items()
            ],
            "problems": [_problem_view(problem) for problem in problems],
        })  # fmt: skip
    if problems:
        raise typer.Exit(2)
    if failed:
        raise typer.Exit(1)


def _run_test(path: Path) -> RuleTestReport:
    return run_rule_test(*_load_test(path))


def _load_test(path: Path) -> tuple[RuleTestFile, RuleSet]:
    """A test file and the rules that it tests, which lie beside it. Raises ConfigError with every mistake."""
    test_file = load_rule_test(file_text(path), str(path))
    beside = [path.parent / name for name in test_file.rule_files]
    made = load_rules({str(file): file_text(file) for file in beside}, vocabulary())
    problems = check_rule_test(test_file, made, vocabulary())
    if problems:
        raise ConfigError(problems)
    return test_file, made


def _print_report(report: RuleTestReport) -> None:
    if report.ok:
        console.print(f"  SUCCESS ({report.checked} checked)", style="green", markup=False)
        return
    console.print("  FAILED:", style="red")
    for failure in report.failures:
        console.print(f"    {failure}", markup=False, soft_wrap=True)


@rules.command("show")
def rules_show(ctx: typer.Context, as_json: Json = False) -> None:
    """The rules in force, with where each is from; the objectives too."""
    context: Context = ctx.obj
    running = context.running()
    made = load_rules_in_force(running.rule_settings)
    slos = load_objectives(Path(file) for file in running.slo_files)
    groups = {name: sorted(group for group, of in running.rules.items() if of == name) for name in made.tuning}
    if as_json:
        print_json({
            "alerts": [_rule_view(rule) for rule in made.alerts.alerts],
            "tuning": {
                name: {"groups": groups[name], "rules": [_rule_view(rule) for rule in one.tunes]}
                for name, one in made.tuning.items()
            },
            "slos": [{"name": one.slo.name, "indicator": one.slo.indicator.value, "where": one.where} for one in slos],
            "parameters": dict(running.rule_settings.get("parameters", {})),
        })  # fmt: skip
        return
    _print_sets(made, groups)
    console.print("Alerts", style="bold")
    console.print(_rule_table(made.alerts.alerts))
    if slos:
        console.print("Objectives", style="bold")
        rows = [[one.slo.name, one.slo.indicator.value, f"{one.slo.objective:g}", one.where] for one in slos]
        console.print(table(("name", "indicator", "objective", "from"), rows, right=(2,)))


def _print_sets(made: LoadedRules, groups: dict[str, list[str]]) -> None:
    """The tuning sets that some group uses, whole; the others by name."""
    for name, one in made.tuning.items():
        if groups[name]:
            console.print(f"Tuning set {name} (of {', '.join(groups[name])})", style="bold", markup=False)
            console.print(_rule_table(one.tunes))
    unused = [name for name in made.tuning if not groups[name]]
    if unused:
        console.print(f"Not used: {', '.join(unused)}", style="dim", markup=False)


def _rule_table(found: Sequence[Rule]) -> Any:
    rows = [
        [rule.name, _what(rule), rule.when.source, format_duration(rule.window_seconds),
         format_duration(rule.for_seconds), rule.where]
        for rule in found
    ]  # fmt: skip
    return table(("rule", "what", "when", "window", "for", "from"), rows)


def _what(rule: Rule) -> str:
    if isinstance(rule, TuneRule):
        guard = f", guard {rule.guard}" if rule.guard else ""
        return f"{rule.change.describe()}{guard}"
    return f"{rule.labels.get('severity', '')} of {rule.scope.value}"


def _rule_view(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "where": rule.where,
        "scope": rule.scope.value,
        "when": rule.when.source,
        "window_seconds": rule.window_seconds,
        "for_seconds": rule.for_seconds,
        "keep_firing_for_seconds": rule.keep_firing_for_seconds if isinstance(rule, AlertRule) else None,
        "need": {need.name: need.minimum for need in rule.need},
        "labels": dict(rule.labels),
        "does": rule.change.describe() if isinstance(rule, TuneRule) else None,
        "guard": rule.guard if isinstance(rule, TuneRule) else None,
    }
