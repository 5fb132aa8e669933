"""What acceptd would do, in a few words: true in every mode, state and pause."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.report.intent import condition, group_intent, server_intent


def group(**more: Any) -> dict[str, Any]:
    advice = {"action": "raise", "state": "recommended", "reason": "predicted_gain", "num_speculative_tokens": 4,
              "gain": 0.06, "note": "", **more.pop("advice", {})}  # fmt: skip
    return {"mode": "recommend", "rollout": None, "paused": None, "advice": advice, **more}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "would raise to 4 (+6.0%)"),
        ({"mode": "auto"}, "will raise to 4 (+6.0%)"),
        ({"mode": "auto", "advice": {"note": "not done: cooldown"}}, "would raise to 4 (+6.0%)"),
        ({"mode": "auto", "advice": {"action": "restart", "gain": None}}, "would restart it as it is"),
        ({"advice": {"state": "awaiting_approval"}}, "waits for approval: raise to 4 (+6.0%)"),
        ({"advice": {"state": "rejected"}}, "declined: raise to 4 (+6.0%)"),
        ({"advice": {"state": "refused"}}, "not done: raise to 4 (+6.0%)"),
        ({"advice": {"state": "acted_on"}}, "did: raise to 4 (+6.0%)"),
        ({"advice": {"state": "expired"}}, "too early to say"),
        ({"advice": {"action": "keep", "reason": "between_thresholds"}}, "keep: between thresholds"),
        ({"advice": {"action": "off", "gain": None}}, "would switch speculation off"),
        ({"advice": {"action": "lower", "num_speculative_tokens": 2, "gain": -0.01}}, "would lower to 2 (-1.0%)"),
        ({"advice": {"action": "probe", "gain": None}}, "would try 4 tokens"),
        ({"paused": "looking (ada)"}, "paused; would raise to 4 (+6.0%)"),
        ({"rollout": {"to": "mtp, 4 tokens"}}, "changing to mtp, 4 tokens"),
    ],
    ids=str,
)  # fmt: skip
def test_a_group(given: dict[str, Any], words: str) -> None:
    assert group_intent(group(**given)) == words


def test_a_group_without_a_decision() -> None:
    assert group_intent({**group(), "advice": None}) == "too early to say"


def test_a_server_says_what_it_does_itself() -> None:
    whole = {**group(), "intent": "would raise to 4"}
    change = {"state": "warming", "to": "mtp, 4 tokens"}
    assert server_intent({"change": change, "paused": None}, whole) == "warming: mtp, 4 tokens"
    assert server_intent({"change": None, "paused": "mine (ada)"}, whole) == "paused"
    assert server_intent({"change": None, "paused": None}, whole) == "would raise to 4"


@pytest.mark.parametrize(
    ("server", "alerts", "found"),
    [
        ({"verdict": "ok"}, [], ("ok", "ok")),
        ({"verdict": "ok", "state": "idle"}, [], ("idle", "ok")),
        ({"verdict": "not_spec_decode"}, [], ("not_spec_decode", "ok")),
        ({"verdict": "scrape_error"}, [], ("scrape_error", "bad")),
        ({"verdict": "starting"}, [], ("starting", "warn")),
        ({"verdict": None}, [], ("not read yet", "warn")),
        ({"verdict": "ok"}, [("info", "Saturated")], ("ok", "ok")),
        ({"verdict": "ok"}, [("ticket", "DraftBroken")], ("DraftBroken", "warn")),
        ({"verdict": "ok"}, [("ticket", "DraftBroken"), ("page", "EngineStuck")], ("EngineStuck", "bad")),
        ({"verdict": "ok", "change": {"state": "draining"}}, [("page", "X")], ("draining", "warn")),
    ],
    ids=str,
)  # fmt: skip
def test_how_a_server_is(server: dict[str, Any], alerts: list[tuple[str, str]], found: tuple[str, str]) -> None:
    whole = {"change": None, "state": None, **server}
    assert condition(whole, [{"severity": severity, "name": name} for severity, name in alerts]) == found
