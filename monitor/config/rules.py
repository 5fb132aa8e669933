"""Which rules and objectives a configuration asks for: the shipped ones, the operator's files, the overridden times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitor.config.fleet import group_name
from monitor.config.model import Config, Rules, SloConfig
from monitor.errors import ConfigError, Problem
from monitor.model.document import one_of
from monitor.model.duration import format_duration
from monitor.policy.facts import rule_vocabulary
from monitor.policy.load import PARAMETERS, load_rules, with_parameters
from monitor.policy.rule import RuleSet
from monitor.shipped import rules_folder
from monitor.signals.vocabulary import VOCABULARY
from monitor.slo.load import SloPolicy, check_scopes, load_slos

_DAY = 86_400.0
#: The shipped alert rules.
ALERTS = "alerts"
#: The shipped objectives.
SLOS = "slo"
#: The shipped tuning sets.
TUNING = ("threshold", "guarded", "goodput")


@dataclass(frozen=True, slots=True)
class LoadedRules:
    """Alert rules (with their inhibitions) for all scopes, the tuning sets by name, and the objectives."""

    alerts: RuleSet
    tuning: Mapping[str, RuleSet]
    slos: tuple[SloPolicy, ...] = ()

    def __len__(self) -> int:
        return len(self.alerts.alerts) + sum(len(rules.tunes) for rules in self.tuning.values())


def vocabulary() -> dict[str, str]:
    """Every name that a rule may use, with its kind."""
    return rule_vocabulary({name: spec.kind.value for name, spec in VOCABULARY.items()})


def load_configured_rules(config: Config) -> LoadedRules:
    """The rules that `config` asks for. Raises ConfigError with every mistake in every file.

    A tuning set is the tuning rules of one file and is called by the file's name without its ending; alert rules of
    all files are evaluated.
    """
    rules = config.rules
    paths = [rules_folder() / f"{name}.yaml" for name in TUNING]
    if rules.alerts:
        paths.append(rules_folder() / f"{ALERTS}.yaml")
    paths += rules.files
    loaded: dict[str, RuleSet] = {}
    found: list[Problem] = []
    words = vocabulary()
    for path in paths:
        try:
            loaded[path.stem] = load_rules({str(path): _text(path)}, words)
        except ConfigError as error:
            found += error.problems
    found += _unknown_sets(config, loaded)
    found += [*_twice_the_file(paths), *_twice_the_alert(paths, loaded)]
    slos: tuple[SloPolicy, ...] = ()
    try:
        slos = load_objectives(slo_paths(config))
        names = [(group_name(one), one.name) for one in config.servers]
        # With sources, groups and servers that are named may still be found.
        if not config.sources:
            found += check_scopes(slos, sorted({group for group, _ in names}), [server for _, server in names])
    except ConfigError as error:
        found += error.problems
    found += _forgotten(config, slos)
    if len(loaded) == len({path.stem for path in paths}):
        # With a file that cannot be read, its rules would be called unknown.
        try:
            loaded = _with_parameters(loaded, rules)
        except ConfigError as error:
            found += error.problems
    if found:
        raise ConfigError(found)
    alerts = RuleSet(
        alerts=tuple(rule for one in loaded.values() for rule in one.alerts),
        inhibitions=tuple(rule for one in loaded.values() for rule in one.inhibitions),
    )
    return LoadedRules(alerts, {name: RuleSet(tunes=one.tunes) for name, one in loaded.items() if one.tunes}, slos)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Problem(str(path), str(error), "a readable file")]) from error


def _twice_the_file(paths: Sequence[Path]) -> Iterator[Problem]:
    """Files of one name would be one set, of which the last alone is evaluated."""
    for name, count in Counter(path.stem for path in paths).items():
        if count > 1:
            files = ", ".join(str(path) for path in paths if path.stem == name)
            yield Problem("rules.files", f"{count} files called {name!r} ({files})", "names of their own")


def _twice_the_alert(paths: Sequence[Path], loaded: Mapping[str, RuleSet]) -> Iterator[Problem]:
    """Alerts of one name would be one alert, which each of its rules resolves for the other."""
    files: dict[str, list[Path]] = {}
    for path in {path.stem: path for path in paths}.values():
        for rule in loaded[path.stem].alerts if path.stem in loaded else ():
            files.setdefault(rule.name, []).append(path)
    for name, found in files.items():
        if len(set(found)) > 1:
            where = " and ".join(str(path) for path in dict.fromkeys(found))
            yield Problem(f"alert {name}", f"rules in {where}", "one file (rules.alerts: false leaves the shipped out)")


def _forgotten(config: Config, slos: Sequence[SloPolicy]) -> Iterator[Problem]:
    """Retention that is shorter than what is judged: each start would forget a part of it, and heal a spent budget."""
    longest = max((policy.slo.period_days for policy in slos), default=0.0) * _DAY
    why = f"at least {format_duration(longest)}, the longest period of an objective"
    kept = {"store.retention": config.store.retention}
    if config.store.shared is not None:
        kept["store.shared.retention"] = config.store.shared.retention
    for section, retention in kept.items():
        sums = {"five_minutes": retention.five_minutes, "hours": retention.hours, "days": retention.days}
        for name, seconds in sums.items():
            if seconds < longest:
                yield Problem(f"{section}.{name}", format_duration(seconds), why)
    if (seconds := config.store.retention.intervals) < _DAY:
        what = "at least 1d: at a start the newest intervals of a day are read as scraped"
        yield Problem("store.retention.intervals", format_duration(seconds), what)


def _unknown_sets(config: Config, loaded: Mapping[str, RuleSet]) -> list[Problem]:
    sets = sorted({*TUNING, *(name for name, rules in loaded.items() if rules.tunes)})
    asked = {"rules.tuning": config.rules.tuning}
    asked |= {f"groups[{i}].rules": group.rules for i, group in enumerate(config.groups) if group.rules is not None}
    return [Problem(path, repr(name), one_of(name, sets)) for path, name in asked.items() if name not in sets]


def _with_parameters(loaded: dict[str, RuleSet], rules: Rules) -> dict[str, RuleSet]:
    """Every override goes to each set that has the rule: the shipped sets share the names of their triggers."""
    changed = dict(loaded)
    found: list[Problem] = []
    known = {rule.name for one in loaded.values() for rule in one}
    for key, value in rules.parameters.items():
        name, _, parameter = key.rpartition(".")
        if name not in known or parameter not in PARAMETERS:
            expected = f"RULE.PARAMETER with a rule ({', '.join(sorted(known))}) and one of {', '.join(PARAMETERS)}"
            found.append(Problem(f"rules.parameters.{key}", repr(key), expected))
            continue
        for stem, one in changed.items():
            if any(rule.name == name for rule in one):
                try:
                    changed[stem] = with_parameters(one, {key: value})
                except ConfigError as error:
                    found += error.problems
    if found:
        raise ConfigError(list(dict.fromkeys(found)))
    return changed


def rule_settings(config: Config) -> dict[str, object]:
    """The section `rules` as plain data, for whoever asks later what was in force."""
    rules = config.rules
    return {
        "tuning": rules.tuning,
        "alerts": rules.alerts,
        "files": [str(path.resolve()) for path in rules.files],
        "interval": rules.interval,
        "baseline_window": rules.baseline_window,
        "parameters": dict(rules.parameters),
    }


def rules_section(settings: Mapping[str, Any]) -> Rules:
    """The section that `rule_settings` wrote down; what it lacks has its default."""
    files = tuple(Path(file) for file in settings.get("files", ()))
    return Rules.model_construct(**{**settings, "files": files})


def load_rules_in_force(settings: Mapping[str, Any]) -> LoadedRules:
    """The rules that were in force under those settings, as their files stand now; without objectives.

    Raises ConfigError where a file has gone or was broken since.
    """
    slo = SloConfig.model_construct(shipped=False, files=())
    return load_configured_rules(Config.model_construct(rules=rules_section(settings), slo=slo))


def slo_paths(config: Config) -> tuple[Path, ...]:
    """The SLO files that `config` asks for: the shipped one unless others are given or it is switched off."""
    own = config.slo.files
    shipped = not own if config.slo.shipped is None else config.slo.shipped
    return (*((rules_folder() / f"{SLOS}.yaml",) if shipped else ()), *own)


def load_objectives(paths: Iterable[Path]) -> tuple[SloPolicy, ...]:
    """The objectives of SLO files. Raises ConfigError with every mistake in every file."""
    sources: dict[str, str] = {}
    found: list[Problem] = []
    for path in paths:
        try:
            sources[str(path)] = _text(path)
        except ConfigError as error:
            found += error.problems
    if found:
        raise ConfigError(found)
    return load_slos(sources)
