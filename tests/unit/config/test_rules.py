"""Which rules a configuration asks for: shipped sets, own files, overridden times; every mistake named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from monitor.config.model import Config
from monitor.config.rules import TUNING, load_configured_rules, vocabulary
from monitor.errors import ConfigError
from monitor.policy.facts import FACTS
from monitor.signals.vocabulary import VOCABULARY

MINE = """
groups:
  - name: mine
    rules:
      - alert: {alert}
        when: acceptance_rate < 0.5
        labels: {{severity: info}}
        annotations: {{summary: low}}
      - tune: {tune}
        when: acceptance_rate > 0.9
        do: {{num_speculative_tokens: "+2"}}
"""


def mine(folder: Path, *, alert: str = "Mine", tune: str = "mine-up") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "mine.yaml"
    path.write_text(MINE.format(alert=alert, tune=tune))
    return path


def test_a_retention_that_forgets_what_is_judged_is_refused(tmp_path: Path) -> None:
    kept = {"intervals": "10m", "five_minutes": "29d", "hours": "30d", "days": "1d"}
    shared = {"url": "postgresql://a@db/a", "retention": {"five_minutes": "7d"}}
    short = Config.model_validate({"store": {"retention": kept, "shared": shared}})
    with pytest.raises(ConfigError) as refused:
        load_configured_rules(short)
    month = "at least 30d, the longest period of an objective"
    day = "at least 1d: at a start the newest intervals of a day are read as scraped"
    assert [(one.path, one.found, one.expected) for one in refused.value.problems] == [
        ("store.retention.five_minutes", "29d", month),
        ("store.retention.days", "1d", month),
        ("store.shared.retention.five_minutes", "7d", month),
        ("store.retention.intervals", "10m", day),
    ]
    without = Config.model_validate({"store": {"retention": kept | {"intervals": "1d"}}, "slo": {"shipped": False}})
    assert load_configured_rules(without).slos == ()


def config(**rules: Any) -> Config:
    return Config.model_validate({"rules": rules})


def problems(of: Config) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load_configured_rules(of)
    return [str(problem) for problem in error.value.problems]


class TestWhich:
    def test_the_shipped_ones_are_loaded_by_themselves(self) -> None:
        loaded = load_configured_rules(config())
        assert set(loaded.tuning) == set(TUNING)
        assert {"ServerDown", "EngineStuck", "AcceptanceCliff"} <= {rule.name for rule in loaded.alerts.alerts}
        assert loaded.alerts.inhibitions
        assert loaded.alerts.tunes == ()
        assert all(rules.alerts == () for rules in loaded.tuning.values())
        assert len(loaded) == len(loaded.alerts.alerts) + sum(len(rules.tunes) for rules in loaded.tuning.values())

    def test_shipped_alerts_may_be_left_out(self) -> None:
        loaded = load_configured_rules(config(alerts=False))
        assert loaded.alerts.alerts == () and set(loaded.tuning) == set(TUNING)

    def test_a_file_of_ones_own_adds_alerts_and_a_set_by_its_name(self, tmp_path: Path) -> None:
        path = mine(tmp_path)
        loaded = load_configured_rules(config(files=[str(path)], tuning="mine"))
        assert "Mine" in {rule.name for rule in loaded.alerts.alerts}
        assert [rule.name for rule in loaded.tuning["mine"].tunes] == ["mine-up"]

    def test_rules_may_name_every_signal_and_fact(self) -> None:
        assert set(vocabulary()) == {*VOCABULARY, *FACTS}


class TestTimes:
    def test_an_override_goes_to_every_set_that_has_the_rule(self) -> None:
        loaded = load_configured_rules(config(parameters={"raise-tokens.window": "10m", "raise-tokens.for": "5m"}))
        for name in ("threshold", "guarded"):
            (rule,) = [rule for rule in loaded.tuning[name].tunes if rule.name == "raise-tokens"]
            assert (rule.window_seconds, rule.for_seconds) == (600.0, 300.0)
            (other,) = [rule for rule in loaded.tuning[name].tunes if rule.name == "lower-tokens"]
            assert other.window_seconds == 1800.0

    @pytest.mark.parametrize(
        ("parameters", "named"),
        [
            ({"raise-tokens.fro": "5m"}, ["rules.parameters.raise-tokens.fro"]),
            ({"nope.for": "5m", "raise-tokens": "5m"}, ["rules.parameters.nope.for", "rules.parameters.raise-tokens"]),
            ({"raise-tokens.keep_firing_for": "5m"}, ["raise-tokens"]),
        ],
    )
    def test_what_cannot_be_overridden_is_named(self, parameters: dict[str, str], named: list[str]) -> None:
        found = problems(config(parameters=parameters))
        assert len(found) == len(named)
        assert all(name in one for name, one in zip(named, found, strict=True))


class TestMistakes:
    def test_an_unknown_set_is_told_the_known_ones(self, tmp_path: Path) -> None:
        asked = Config.model_validate(
            {
                "rules": {"tuning": "gaurded"}, "servers": [{"name": "a", "url": "http://x:1"}],
                "groups": [{"name": "a", "rules": "none"}],
            }
        )
        assert [one.partition(":")[0] for one in problems(asked)] == ["rules.tuning", "groups[0].rules"]
        assert "guarded" in problems(asked)[0]

    def test_those_of_every_file_come_at_once(self, tmp_path: Path) -> None:
        broken, gone = tmp_path / "broken.yaml", tmp_path / "gone.yaml"
        broken.write_text("groups: [{name: g, rules: [{alert: A, when: nope < 1}]}]\n")
        binary = tmp_path / "binary.yaml"
        binary.write_bytes(b"\xff\xfe\x00")
        found = problems(config(files=[str(broken), str(gone), str(binary)], tuning="nope"))
        for name in ("broken.yaml", "gone.yaml", "binary.yaml", "rules.tuning"):
            assert any(name in one for one in found)

    def test_two_files_of_one_name_would_hide_each_other(self, tmp_path: Path) -> None:
        first, second = mine(tmp_path / "a", alert="One"), mine(tmp_path / "b", alert="Two")
        (one,) = problems(config(files=[str(first), str(second)]))
        assert one.startswith("rules.files: found 2 files called 'mine'")
        assert str(first) in one and str(second) in one

    def test_a_file_called_like_a_shipped_one_would_hide_it(self, tmp_path: Path) -> None:
        path = mine(tmp_path).rename(tmp_path / "alerts.yaml")
        assert "2 files called 'alerts'" in problems(config(files=[str(path)]))[0]
        # Left out, its name is free.
        assert len(load_configured_rules(config(files=[str(path)], alerts=False)).alerts.alerts) == 1

    def test_two_alerts_of_one_name_would_resolve_each_other(self, tmp_path: Path) -> None:
        path = mine(tmp_path, alert="ServerDown")
        (one,) = problems(config(files=[str(path)]))
        assert one.startswith("alert ServerDown: found rules in ") and "rules.alerts: false" in one
        assert len(load_configured_rules(config(files=[str(path)], alerts=False)).alerts.alerts) == 1
