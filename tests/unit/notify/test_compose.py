"""The words of notices: what happened, how bad, why, and what to do next."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.model.alert import Alert, AlertState, Matcher, Severity, Silence, SilenceId, fingerprint
from monitor.model.decision import Action, Decision, DecisionId, DecisionState, Precondition, Reason, ThresholdAnswer
from monitor.model.life import Setting
from monitor.model.notice import Button, NoticeKind
from monitor.model.record import ReportRecord
from monitor.model.server import GroupName, Mode, ServerName
from monitor.notify.compose import change_words, decision_notice, gain_words, refused_notice, report_notice
from monitor.notify.compose_alerts import alerts_notice, silence_notice
from monitor.notify.words import duration_words, evidence_fields, number_text
from monitor.signals.vocabulary import VOCABULARY
from tests.unit.signals.windows import NOON

TWO, THREE = (Setting(method="ngram", num_speculative_tokens=n) for n in (2, 3))


def alert(server: str = "a", *, severity: str = "page", name: str = "Cliff", minutes: float = 0.0) -> Alert:
    labels = {"alertname": name, "severity": severity, "server": server, "group": "g"}
    began = NOON - timedelta(minutes=minutes)
    return Alert(
        fingerprint=fingerprint(labels), labels=labels, state=AlertState.FIRING, active_since=began, fired_at=began,
        annotations={"summary": f"{server} fell", "description": "Look at the draft.", "runbook": "cliff"},
        evidence={"acceptance_rate": 0.031, "num_drafts": 16833.0, "goodput": None},
    )


def decision(action: Action = Action.RAISE, proposed: Setting = THREE, **more: object) -> Decision:
    made = Decision(
        id=DecisionId("d-1"), group=GroupName("g"), servers=(ServerName("a"), ServerName("b")), rule="raise-tokens",
        action=action, reason=Reason.ABOVE_RAISE_THRESHOLD, sentence="Acceptance 77%, above 70 %.", current=TWO,
        proposed=proposed, precondition=Precondition({}, TWO), made_at=NOON, expires_at=NOON, gain=0.123,
        gain_low=-0.01, gain_high=0.25, evidence={f"signal_{n}": float(n) for n in range(20)},
        threshold=ThresholdAnswer(Action.RAISE, 3, "raise to 3."),
    )
    return replace(made, **more)  # type: ignore[arg-type]


class TestNumbers:
    @pytest.mark.parametrize(
        ("name", "value", "text"),
        [
            ("acceptance_rate", 0.7712, "77.1%"),
            ("acceptance_rate_at_pos[0]", 0.5, "50.0%"),
            ("error_ratio", 0.05, "5.0%"),
            ("kv_usage_max", 0.98, "98.0%"),
            # No ratio, though it is in the word.
            ("generation_tokens_per_second", 1620.5, "1,620.50"),
            ("step_seconds", 0.0123, "12.3 ms"),
            ("time_to_first_token_seconds_p95", 2.46, "2.5 s"),
            ("uptime_seconds", 90000.0, "1 d 1 h"),
            ("num_drafts", 16833.0, "16,833"),
            ("acceptance_length", 2.734, "2.73"),
            ("acceptance_length", None, "no data"),
            ("acceptance_length", float("nan"), "no data"),
            ("goodput", float("inf"), "no data"),
        ],
    )
    def test_they_are_shown_as_people_read_them(self, name: str, value: float | None, text: str) -> None:
        assert number_text(name, value) == text

    def test_percent_is_for_ratios_alone(self) -> None:
        for spec in VOCABULARY.values():
            is_percent = number_text(spec.name, 0.5).endswith("%")
            is_ratio = spec.unit.startswith("ratio") or "rate" in spec.name.split("_")
            assert not is_percent or is_ratio, spec.name

    def test_what_has_no_data_is_left_out_of_fields_and_ten_are_enough(self) -> None:
        assert evidence_fields({"num_drafts": None, "running": 3.0}) == (("running", "3"),)
        assert len(evidence_fields({f"signal_{n}": 1.0 for n in range(20)})) == 10

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(-5, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (3660, "1 h 1 min"),
         (86400, "1 d"), (90000, "1 d 1 h")],
    )  # fmt: skip
    def test_lengths_of_time(self, seconds: float, text: str) -> None:
        assert duration_words(seconds) == text


class TestAlerts:
    def test_one_is_its_summary_with_its_numbers_and_its_runbook(self) -> None:
        one = alert()
        said = alerts_notice(
            NoticeKind.ALERT_FIRING, key="k", thread="t", new=[one], now=NOON,
            extra={one.fingerprint: "Probe: no token generated."},
        )
        assert (said.title, said.severity, said.thread, said.dedupe_key) == (
            "a fell", Severity.PAGE, "alert:t", "alert:k"
        )  # fmt: skip
        assert said.text == "Look at the draft.\nProbe: no token generated.\nWhat to do: `acceptd runbook cliff`"
        assert said.buttons == (Button.ACKNOWLEDGE, Button.SILENCE)
        assert said.fields == (("acceptance_rate", "3.1%"), ("num_drafts", "16,833"))

    def test_its_probable_causes_are_numbered_and_one_alone_is_not(self) -> None:
        two = replace(alert(), causes=("It decays.", "Memory runs out."))
        said = alerts_notice(NoticeKind.ALERT_FIRING, key="k", thread="t", new=[two], now=NOON)
        assert said.text.splitlines()[1:4] == ["Probable causes:", "1. It decays.", "2. Memory runs out."]
        one = replace(alert(), causes=("It decays.",))
        said = alerts_notice(NoticeKind.ALERT_FIRING, key="k", thread="t", new=[one], now=NOON)
        assert said.text.splitlines()[1] == "Probable cause: It decays."
        # Of several alerts the likeliest cause of each.
        said = alerts_notice(NoticeKind.ALERT_FIRING, key="k", thread="t", new=[two, alert("b")], now=NOON)
        assert [line for line in said.text.splitlines() if "robabl" in line] == ["Probably: It decays."]

    def test_several_are_one_message_that_names_them(self) -> None:
        said = alerts_notice(
            NoticeKind.ALERT_FIRING, key="k", thread="t", new=[alert("b"), alert("a", severity="ticket")], now=NOON
        )
        assert said.title == "Cliff: 2 of them (a, b)"
        assert said.severity is Severity.PAGE
        assert "b fell" in said.text and "a fell" in said.text
        assert said.fields == ()

    def test_a_repeat_says_for_how_long_and_who_is_on_it(self) -> None:
        old = replace(alert(minutes=90), acknowledged_by="ann")
        said = alerts_notice(NoticeKind.ALERT_REPEAT, key="k", thread="t", new=[], still=[old], now=NOON)
        assert said.text.splitlines() == [
            "For 1 h 30 min, acknowledged by ann.", "Look at the draft.", "What to do: `acceptd runbook cliff`"
        ]  # fmt: skip
        assert said.fields
        # Somebody is on it already.
        assert said.buttons == (Button.SILENCE,)

    def test_the_end_says_after_how_long_and_has_no_runbook(self) -> None:
        over = replace(alert(minutes=30), state=AlertState.RESOLVED, resolved_at=NOON - timedelta(minutes=10))
        said = alerts_notice(
            NoticeKind.ALERT_RESOLVED, key="k", thread="t", new=[], ended=[over], edits=True, now=NOON, simulated=True
        )
        assert said.text.startswith("Over after 20 min: a fell") and "What to do" not in said.text
        assert said.edits_root and said.simulated and said.buttons == ()


class TestDecisions:
    @pytest.mark.parametrize(
        ("action", "proposed", "words"),
        [
            (Action.RAISE, THREE, "raise num_speculative_tokens 2 -> 3"),
            (Action.OFF, Setting(method="ngram", num_speculative_tokens=0), "switch speculation off (now ngram, 2"),
            (Action.RESTART, TWO, "restart with the same setting"),
        ],
    )
    def test_what_is_asked_for_in_a_few_words(self, action: Action, proposed: Setting, words: str) -> None:
        assert change_words(decision(action, proposed)).startswith(words)

    def test_gains_have_their_interval_or_say_that_there_is_none(self) -> None:
        assert gain_words(decision()) == "+12.3% (-1.0% to +25.0%)"
        assert gain_words(decision(gain_low=None)) == "+12.3%"
        assert "not predicted" in gain_words(decision(gain=None))

    @pytest.mark.parametrize(
        ("mode", "words"),
        [(Mode.OBSERVE, "only observed"), (Mode.RECOMMEND, "acceptd plan d-1"), (Mode.APPROVE, "acceptd plan d-1"),
         (Mode.AUTO, "as soon as limits and pauses allow")],
    )  # fmt: skip
    def test_what_happens_next_depends_on_the_mode(self, mode: Mode, words: str) -> None:
        said = decision_notice(decision(), mode, NOON)
        assert words in said.text
        assert said.title == "g: raise num_speculative_tokens 2 -> 3"
        assert dict(said.fields)["70/50 rule"] == "raise to 3."
        assert len(said.fields) <= 10

    @pytest.mark.parametrize("mode", list(Mode))
    def test_it_has_buttons_where_a_person_decides(self, mode: Mode) -> None:
        expected = (Button.APPROVE, Button.REJECT) if mode in (Mode.RECOMMEND, Mode.APPROVE) else ()
        assert decision_notice(decision(), mode, NOON).buttons == expected

    def test_a_watched_server_is_not_offered_a_command(self) -> None:
        said = decision_notice(decision(), Mode.RECOMMEND, NOON, is_managed=False)
        assert said.buttons == ()
        assert "only watches" in said.text and "acceptd plan" not in said.text

    def test_a_refusal_says_why_and_how_to_insist_in_the_same_thread(self) -> None:
        refused = decision(state=DecisionState.REFUSED, note="not done: a cannot be restarted unnoticed.")
        said = refused_notice(refused, NOON, simulated=True)
        assert said.thread == "decision:d-1" and said.in_thread and said.simulated
        why, rest = said.text.splitlines()
        assert why == "a cannot be restarted unnoticed."
        assert rest == "It rests for a day; `acceptd plan d-1` shows how to do it all the same."


def test_a_report_is_short_and_brings_one_picture_and_the_page() -> None:
    files = ("/r/a.html", "/r/a.md", "/r/a.json", "/r/a.png")
    record = ReportRecord("2026-W10", NOON, NOON, NOON, "Two servers gain.", "…", files)
    said = report_notice(record, NOON, todo=[("chat: raise to 4.", "acceptd plan d-1"), ("rag: broken.", "")])
    assert (said.kind, said.text, said.attachments) == (
        NoticeKind.REPORT, "Two servers gain.\nchat: raise to 4. `acceptd plan d-1`\nrag: broken.",
        ("/r/a.png", "/r/a.html"),
    )  # fmt: skip


class TestMany:
    def test_a_storm_is_counted_by_name_and_shows_ten(self) -> None:
        new = [alert(f"s{n:02}", name="Cliff" if n % 3 else "Down") for n in range(30)]
        said = alerts_notice(NoticeKind.ALERT_FIRING, key="k", thread="t", new=new, now=NOON)
        assert said.title == "30 alerts at once: Cliff 20, Down 10"
        assert len(said.text.splitlines()) == 12
        assert said.text.splitlines()[-2:] == [
            "and 20 more new (`acceptd alerts`)", "What to do: `acceptd runbook cliff`"
        ]  # fmt: skip
        assert "Look at the draft" not in said.text

    def test_places_of_many_are_cut_too(self) -> None:
        said = alerts_notice(
            NoticeKind.ALERT_FIRING, key="k", thread="t", new=[alert(f"s{n:02}") for n in range(12)], now=NOON
        )
        assert said.title.startswith("Cliff: 12 of them (s00, s01") and said.title.endswith("s09 and 2 more)")


def test_a_silence_that_ends_says_over_what_and_how_to_go_on() -> None:
    silence = Silence(
        id=SilenceId("s-1"), matchers=(Matcher("alertname", "=~", "Accept.*"), Matcher("server", "=", "a")),
        author="ann", reason="moving racks", starts_at=NOON - timedelta(hours=4), ends_at=NOON + timedelta(minutes=25),
    )
    said = silence_notice(silence, [alert("a"), alert("b")], NOON)
    assert said.title == "Silence s-1 ends in 25 min"
    assert said.text.splitlines() == [
        "Set by ann: moving racks", "Still firing below it: 2", "- a fell", "- b fell",
        "They will be told from 12:25 UTC on.", "To go on: `acceptd silence 'alertname=~Accept.*' server=a --for 4h`",
    ]  # fmt: skip
    # A route may go by what they have in common.
    assert dict(said.labels) == {"alertname": "Cliff", "severity": "page", "group": "g"}
