from __future__ import annotations

from collections.abc import Iterator

from monitor.policy.timeline import EventKind, Moment, replay
from tests.unit.policy.words import GROUP, SERVER, minute, rules, signal_set

RULES = """
groups:
  - name: g
    rules:
      - {tune: more, when: acceptance_rate > 0.70, for: 2m, do: {num_speculative_tokens: "+1"}}
      - {alert: Down, when: up == 0.0, for: 1m, labels: {severity: page}, annotations: {summary: x}}
"""


def moments(rates: list[float | None], ups: list[float], changed_at: int | None = None) -> Iterator[Moment]:
    for i, (rate, up) in enumerate(zip(rates, ups, strict=True)):
        signals = {
            (300.0, "group:g"): signal_set({"acceptance_rate": rate}, scope="group:g"),
            (300.0, "server:a"): signal_set({"up": up}),
        }
        is_changed = changed_at is not None and i >= changed_at
        yield Moment(minute(i), signals, {"group:g": minute(changed_at)} if is_changed else {})


def test_a_replay_tells_what_would_have_begun_and_ended() -> None:
    rates = [0.8, 0.8, 0.8, 0.8, None, 0.8, 0.6, 0.8]
    ups = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    events = list(replay(rules(RULES), moments(rates, ups), [SERVER, GROUP]))
    assert [(e.at, e.kind, e.rule, e.scope) for e in events] == [
        (minute(2), EventKind.ALERT_FIRING, "Down", "server:a"),
        (minute(2), EventKind.TUNE_BEGAN, "more", "group:g"),
        (minute(4), EventKind.ALERT_RESOLVED, "Down", "server:a"),
        (minute(6), EventKind.TUNE_ENDED, "more", "group:g"),
    ]
    assert events[0].alert is not None
    assert events[1].firing is not None
    assert events[1].firing.change.describe() == "+1"


def test_a_rule_that_holds_on_is_told_again_where_that_is_asked() -> None:
    rates = [0.8, 0.8, 0.8, 0.8, 0.8, 0.8, None, 0.8]
    found = list(replay(rules(RULES), moments(rates, [1.0] * 8), [SERVER, GROUP], again_seconds=120.0))
    assert [(e.at, e.kind) for e in found] == [
        (minute(2), EventKind.TUNE_BEGAN), (minute(4), EventKind.TUNE_HOLDS), (minute(7), EventKind.TUNE_HOLDS),
    ]  # fmt: skip


def test_what_a_rule_held_for_at_another_setting_does_not_count() -> None:
    events = list(replay(rules(RULES), moments([0.8] * 8, [1.0] * 8, changed_at=4), [SERVER, GROUP]))
    assert [(e.at, e.kind) for e in events] == [
        (minute(2), EventKind.TUNE_BEGAN), (minute(4), EventKind.TUNE_ENDED), (minute(6), EventKind.TUNE_BEGAN),
    ]  # fmt: skip


def test_a_change_before_it_began_to_hold_leaves_its_time_alone() -> None:
    events = list(replay(rules(RULES), moments([0.6, 0.8, 0.8, 0.8], [1.0] * 4, changed_at=1), [SERVER, GROUP]))
    assert [(e.at, e.kind) for e in events] == [(minute(3), EventKind.TUNE_BEGAN)]
