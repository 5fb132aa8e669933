from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from monitor.model.alert import Alert, AlertState, Matcher, Silence, SilenceId, fingerprint
from monitor.policy.load import load_rules
from monitor.policy.mute import Mute, MuteKind, Muter, ending_silences
from monitor.policy.rule import Inhibition
from monitor.shipped import rules_folder
from tests.unit.policy.words import WORDS, alert, minute

DOWN_MUTES_REST = Inhibition(
    (Matcher("alertname", "=", "ServerDown"),), (Matcher("alertname", "!=", "RestartFailed"),), ("server",)
)


def silence(label: str = "server", value: str = "a", *, start: float = 0, end: float = 60) -> Silence:
    return Silence(
        id=SilenceId("s1"), matchers=(Matcher(label, "=", value),), author="ann", reason="moving racks",
        starts_at=minute(start), ends_at=minute(end),
    )


def mute(
    one: Alert, alerts: list[Alert], *, inhibitions: tuple[Inhibition, ...] = (DOWN_MUTES_REST,),
    silences: tuple[Silence, ...] = (), rolling: tuple[str, ...] = (), at: float = 10,
) -> Mute | None:
    return Muter(alerts, inhibitions, silences, rolling, minute(at)).mute(one)


def ending(
    alerts: list[Alert], *silences: Silence, at: float, rolling: tuple[str, ...] = ()
) -> list[tuple[str, list[str]]]:
    muter = Muter(alerts, (DOWN_MUTES_REST,), silences, rolling, minute(at))
    found = ending_silences(silences, alerts, muter, minute(at))
    return [(one.id, [alert.name for alert in muted]) for one, muted in found]


class TestInhibition:
    def test_a_server_that_is_down_mutes_its_others_and_not_those_of_another(self) -> None:
        down, slow, other = alert("ServerDown"), alert("TooSlow"), alert("TooSlow", server="b")
        everything = [down, slow, other]
        assert mute(slow, everything) == Mute(MuteKind.INHIBITED, "ServerDown on a")
        assert mute(down, everything) is None
        assert mute(other, everything) is None
        assert mute(alert("RestartFailed"), everything) is None

    def test_only_a_firing_alert_mutes(self) -> None:
        for state in (AlertState.PENDING, AlertState.RESOLVED):
            down = alert("ServerDown", state=state, resolved=1 if state is AlertState.RESOLVED else None)
            assert mute(alert("TooSlow"), [down, alert("TooSlow")]) is None

    def test_what_forgets_slower_than_its_cause_is_muted_before_and_after_it(self) -> None:
        rule = Inhibition(
            (Matcher("alertname", "=", "ServerDown"),), (Matcher("alertname", "=", "ErrorBudgetBurn"),), ("server",),
            pending=True, after_seconds=1800.0,
        )
        burn = alert("ErrorBudgetBurn")

        def is_muted(**cause: Any) -> bool:
            return mute(burn, [alert("ServerDown", **cause), burn], inhibitions=(rule,), at=60) is not None

        assert is_muted(state=AlertState.PENDING, fired=60)
        # It has had no data since: it may never fire.
        assert not is_muted(state=AlertState.PENDING, fired=59)
        assert is_muted(state=AlertState.RESOLVED, resolved=31)
        assert not is_muted(state=AlertState.RESOLVED, resolved=30)

    @pytest.mark.parametrize(
        ("cause", "indicator", "is_told"),
        [
            ("ServerDown", "uptime", False), ("EngineStuck", "uptime", False), ("RestartFailed", "uptime", False),
            ("EngineStuck", "availability", False), ("ServerErrors", "availability", False),
            ("ServerErrors", "uptime", True), ("ServerDown", "time_to_first_token", True),
        ],
    )  # fmt: skip
    def test_a_budget_is_not_told_beside_the_server_that_burns_it(
        self, cause: str, indicator: str, is_told: bool
    ) -> None:
        """Whatever the objective is called: of another group it is told."""
        shipped = load_rules({"alerts.yaml": (rules_folder() / "alerts.yaml").read_text()}, WORDS).inhibitions
        for group in ("g", "other"):
            labels = {"alertname": "ErrorBudgetBurn", "slo": "ours", "indicator": indicator, "severity": "page",
                      "group": group}  # fmt: skip
            burn = replace(alert("ErrorBudgetBurn"), labels=labels, fingerprint=fingerprint(labels))
            found = mute(burn, [alert(cause), burn], inhibitions=shipped)
            assert (found is None) is (is_told or group == "other"), group

    def test_an_objective_without_data_is_not_told_beside_the_server_that_has_none(self) -> None:
        shipped = load_rules({"alerts.yaml": (rules_folder() / "alerts.yaml").read_text()}, WORDS).inhibitions
        labels = {"alertname": "AlertHasNoData", "slo": "first-token", "severity": "ticket", "group": "g"}
        blind = replace(alert("AlertHasNoData"), labels=labels, fingerprint=fingerprint(labels))
        for cause in ("ServerDown", "NoSamples", "ScrapeUnauthorized"):
            assert mute(blind, [alert(cause), blind], inhibitions=shipped) is not None
            assert mute(blind, [alert(cause, group="other"), blind], inhibitions=shipped) is None

    def test_two_that_would_mute_each_other_both_stay_loud(self) -> None:
        a_mutes_b = Inhibition((Matcher("alertname", "=", "A"),), (Matcher("alertname", "=", "B"),))
        b_mutes_a = Inhibition((Matcher("alertname", "=~", "A|B"),), (Matcher("alertname", "=~", "A|B"),))
        a, b = alert("A"), alert("B")
        assert mute(a, [a, b], inhibitions=(b_mutes_a,)) is None
        assert mute(b, [a, b], inhibitions=(b_mutes_a,)) is None
        assert mute(b, [a, b], inhibitions=(a_mutes_b,)) is not None

    def test_an_empty_label_equals_a_missing_one_as_in_alertmanager(self) -> None:
        rule = Inhibition((Matcher("alertname", "=", "A"),), (Matcher("alertname", "=", "B"),), ("zone",))
        assert mute(alert("B"), [alert("A"), alert("B")], inhibitions=(rule,)) is not None


class TestSilences:
    def test_a_silence_mutes_what_it_matches_while_it_lasts(self) -> None:
        slow = alert("TooSlow")
        quiet = Mute(MuteKind.SILENCED, "ann: moving racks")
        assert mute(slow, [slow], silences=(silence(),)) == quiet
        assert mute(slow, [slow], silences=(silence(value="b"),)) is None
        assert mute(slow, [slow], silences=(silence(end=10),)) is None
        assert mute(slow, [slow], silences=(silence(start=11),)) is None

    def test_one_that_ends_soon_over_a_firing_alert_is_found(self) -> None:
        slow = alert("TooSlow")
        assert ending([slow], silence(end=240), at=210) == [("s1", ["TooSlow"])]
        assert ending([slow], silence(end=240), at=209) == []
        assert ending([alert(server="b")], silence(end=240), at=230) == []
        assert ending([alert("TooSlow", state=AlertState.RESOLVED, resolved=5)], silence(end=240), at=230) == []
        assert ending([alert("TooSlow", severity="info")], silence(end=240), at=230) == []

    def test_a_short_one_is_told_of_in_its_last_quarter(self) -> None:
        slow = alert("TooSlow")
        assert ending([slow], silence(end=20), at=14) == []
        assert ending([slow], silence(end=20), at=15) == [("s1", ["TooSlow"])]

    def test_its_end_is_no_news_where_something_else_keeps_the_alert_quiet(self) -> None:
        slow, down = alert("TooSlow"), alert("ServerDown")
        longer = silence("alertname", "TooSlow", end=300)
        assert ending([slow], silence(end=240), longer, at=230) == []
        # Of two that end together each would be the last word.
        assert len(ending([slow], silence(end=240), silence("alertname", "TooSlow", end=240), at=230)) == 2
        assert ending([slow, down], silence(end=240), at=230) == [("s1", ["ServerDown"])]
        assert ending([slow], silence(end=240), at=230, rolling=("a",)) == []
        # Only held: it will be over before anybody is told.
        assert ending([replace(slow, clear_since=minute(229))], silence(end=240), at=230) == []


class TestOurOwnRollout:
    def test_it_mutes_that_server_but_not_what_says_the_rollout_failed(self) -> None:
        down, other = alert("ServerDown"), alert("ServerDown", server="b")
        failed = alert("RestartFailed", annotations={"summary": "x", "during_rollout": "tell"})
        assert mute(down, [], rolling=("a",)) == Mute(MuteKind.ROLLOUT, "our own change of a")
        assert mute(other, [], rolling=("a",)) is None
        assert mute(failed, [], rolling=("a",)) is None

    def test_a_group_alert_is_not_muted_by_it(self) -> None:
        burn = alert("ErrorBudgetBurn", server="")
        assert mute(burn, [], rolling=("a",)) is None


def test_a_thousand_servers_down_are_a_thousand_alerts_told() -> None:
    alerts = [alert(name, server=f"s{i}") for i in range(1000) for name in ("ServerDown", "NoSamples")]
    muter = Muter(alerts, (DOWN_MUTES_REST,), (), (), minute(0) + timedelta(minutes=1))
    assert sum(muter.mute(one) is not None for one in alerts) == 1000
