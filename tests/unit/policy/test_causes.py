"""Probable causes: each found by its numbers, none made up, the likeliest first."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from monitor.model.life import Setting
from monitor.model.signal import Signal, SignalSet, VectorSignal
from monitor.policy.causes import UNSEEN, Case, probable_causes
from tests.unit.signals.windows import NOON, life

#: A server of which nothing is wrong.
WELL: dict[str, Any] = {
    "acceptance_length": 2.70, "baseline_acceptance_length": 2.70, "baseline_acceptance_rate": 0.57,
    "baseline_first_position_rate": 0.70, "acceptance_alpha": 0.65, "acceptance_rate_at_pos": (0.70, 0.55, 0.45),
    "num_drafts": 5000.0, "num_speculative_tokens": 3.0, "mean_draft_tokens": 3.0, "mean_prompt_tokens": 900.0,
    "mean_output_tokens": 300.0, "preemptions_per_minute": 0.0, "kv_usage_max": 0.5, "waiting_share": 0.0,
    "waiting": 0.0, "acceptance_length_since_start": 0.99, "uptime_seconds": 90_000.0, "is_neural_draft": 1.0,
}  # fmt: skip
#: One whose acceptance has fallen, and nothing else is known to be wrong.
FALLEN: dict[str, Any] = {
    **WELL, "acceptance_length": 1.60, "acceptance_alpha": 0.35, "acceptance_rate_at_pos": (0.35, 0.15, 0.1)
}  # fmt: skip


def known(values: dict[str, Any], **changes: Any) -> SignalSet:
    merged = {**values, **changes}
    scalars = {n: Signal(n, v, 1000.0) for n, v in merged.items() if not isinstance(v, tuple) and v is not None}
    vectors = {n: VectorSignal(n, v, 1000.0) for n, v in merged.items() if isinstance(v, tuple)}
    return SignalSet(scope="server:a", at=NOON, window_seconds=300.0, scalars=scalars, vectors=vectors)


def found(case: Case, *, about_acceptance: bool = True, limit: int = 9) -> dict[str, str]:
    causes = probable_causes(case, about_acceptance=about_acceptance, limit=limit)
    return {cause.name: cause.sentence for cause in causes}


def case(values: dict[str, Any] = FALLEN, **more: Any) -> Case:
    changes = {name: more.pop(name) for name in list(more) if name in WELL}
    return Case(at=NOON, now=known(values, **changes), **more)


def test_where_nothing_stands_out_it_says_so_and_what_cannot_be_seen() -> None:
    assert found(case()) == {"unknown": f"Nothing measured stands out. {UNSEEN}"}
    assert found(case(), about_acceptance=False) == {}
    assert found(Case(at=NOON, now=known({}))) == {"unknown": f"Nothing measured stands out. {UNSEEN}"}


@pytest.mark.parametrize(
    ("changes", "name", "sentence"),
    [
        ({"acceptance_alpha": 0.22, "baseline_acceptance_rate": None, "baseline_acceptance_length": None,
          "acceptance_rate_at_pos": (0.21, 0.04, 0.01)},
         "wrong_pair", "The draft does not fit its target: 22% of the tokens tested are accepted (by position 21%, 4%, "
                       "1%), and it never was better here."),
        ({"acceptance_rate_at_pos": (0.02, 0.0, 0.0), "acceptance_length": 1.02},
         "broken_draft", "The draft or its head is broken, or the target's answers are: the first position is accepted "
                         "2% of the time, normally 70%. Read an answer."),
        ({"acceptance_length_since_start": 0.62, "uptime_seconds": 187_000.0},
         "decay", "It decays with uptime: 62% of the length of this process's first hours, after 2d4h. A restart "
                  "brought it back where this was reported."),
        ({"mean_prompt_tokens": 12_400.0},
         "long_context", "Prompts are long: 12,400 tokens on average. Heads that were trained on short ones break "
                         "there."),
        ({"preemptions_per_minute": 14.0, "kv_usage_max": 0.98},
         "memory", "Memory runs out: 14 requests a minute are thrown out and computed again, the KV cache up to 98% "
                   "full. A draft takes its share of the same memory."),
        ({"waiting_share": 0.35, "waiting": 12.0},
         "saturated", "It has more to do than it can: requests queue 35% of the time, 12 at a time."),
        ({"mean_draft_tokens": 1.2},
         "cut_drafts", "Drafts are cut: 1.2 tokens on average of the 3 set, by a schedule, a length limit or the token "
                       "budget."),
    ],
)  # fmt: skip
def test_each_is_named_with_its_numbers(changes: dict[str, Any], name: str, sentence: str) -> None:
    assert found(case(**changes)) == {name: sentence}


@pytest.mark.parametrize(
    "changes",
    [
        # Lookup drafts from the text: long prompts are what they like.
        {"mean_prompt_tokens": 12_400.0, "is_neural_draft": 0.0},
        {"acceptance_length_since_start": 0.62, "uptime_seconds": 7200.0},
        {"preemptions_per_minute": 14.0, "kv_usage_max": 0.4},
        {"acceptance_alpha": 0.22},
        {"acceptance_rate_at_pos": (0.02, 0.0), "baseline_first_position_rate": 0.04, "acceptance_alpha": 0.4},
    ],
)
def test_none_is_made_up(changes: dict[str, Any]) -> None:
    assert list(found(case(**changes))) == ["unknown"]


class TestEngines:
    def test_the_bad_one_of_several_is_named_before_all_else(self) -> None:
        engines = {"0": known(WELL), "1": known(WELL, acceptance_length=1.1), "2": known(WELL, acceptance_length=2.8)}
        names = found(case(engines=engines, waiting_share=0.4))
        assert next(iter(names)) == "one_bad_engine"
        assert names["one_bad_engine"] == (
            "One of 3 engines is bad: engine 1 gets 1.10 tokens a draft, the others 2.75."
        )

    @pytest.mark.parametrize(
        "second", [known(WELL, acceptance_length=2.2), known(WELL, acceptance_length=1.1, num_drafts=20.0), known({})]
    )
    def test_small_differences_and_few_drafts_prove_nothing(self, second: SignalSet) -> None:
        assert list(found(case(engines={"0": known(WELL), "1": second}))) == ["unknown"]


class TestTraffic:
    def test_other_lengths_than_last_week_at_this_hour(self) -> None:
        week = known(WELL, mean_prompt_tokens=300.0, mean_output_tokens=310.0)
        assert found(case(last_week=week)) == {
            "traffic": f"The traffic is another: prompts of 900 tokens, 300 at this hour last week. {UNSEEN}"
        }

    def test_shorter_is_other_traffic_too(self) -> None:
        assert "answers of 300 tokens, 900" in found(case(last_week=known(WELL, mean_output_tokens=900.0)))["traffic"]

    def test_peers_that_fell_as_well_say_that_it_is_the_traffic(self) -> None:
        peers = {"b": known(FALLEN), "c": known(FALLEN)}
        assert found(case(peers=peers, last_week=known(WELL))) == {
            "traffic": f"Its 2 peers fell as well, so it is the traffic. {UNSEEN}"
        }

    def test_peers_that_did_not_say_that_it_is_this_server(self) -> None:
        assert found(case(peers={"b": known(WELL), "c": known(WELL)}, last_week=known(WELL))) == {
            "this_server": "It is this server alone: its 2 peers on the same model still get 2.70 tokens a draft."
        }

    def test_peers_without_a_normal_say_nothing(self) -> None:
        assert list(found(case(peers={"b": known(WELL, baseline_acceptance_length=None)}))) == ["unknown"]

    def test_long_prompts_that_it_had_last_week_too_are_no_cause(self) -> None:
        week = known(WELL, mean_prompt_tokens=12_000.0)
        assert list(found(case(mean_prompt_tokens=12_400.0, last_week=week))) == ["unknown"]


class TestChanges:
    def lives(self, **changes: Any) -> dict[str, Any]:
        before = replace(life("a", number=1), first_seen=NOON - timedelta(days=3))
        now = replace(life("a", number=2), **{"first_seen": NOON - timedelta(hours=2), **changes})
        return {"life": now, "before": before}

    @pytest.mark.parametrize(
        ("changes", "name", "words"),
        [
            ({"engine_version": "0.12.0"}, "another_version",
             "Another version since 2026-03-04 10:00 UTC: 0.12.0, before it 0.11.0."),
            ({"model": "m2"}, "another_model", "m2, before it m."),
            ({"setting": Setting(method="mtp", num_speculative_tokens=3)}, "another_method", "mtp, before it eagle3."),
        ],
    )
    def test_what_was_changed_lately(self, changes: dict[str, Any], name: str, words: str) -> None:
        assert words in found(case(**self.lives(**changes)))[name]

    def test_another_number_of_tokens_is_one_where_it_is_not_the_number_that_is_judged(self) -> None:
        lives = self.lives(setting=Setting(method="eagle3", num_speculative_tokens=5))
        sentence = "Another setting since 2026-03-04 10:00 UTC: eagle3, 5 tokens, before it eagle3, 3 tokens."
        assert found(case(WELL, **lives), about_acceptance=False) == {"another_setting": sentence}
        assert "another_setting" not in found(case(**lives))
        adaptive = {**lives, "life": replace(lives["life"], adapts="by load")}
        assert found(case(WELL, **adaptive), about_acceptance=False) == {}

    def test_a_process_that_just_began_is_one(self) -> None:
        lives = self.lives(first_seen=NOON - timedelta(minutes=12))
        assert found(case(**lives)) == {"new_process": "It began with a new process, 12m ago."}

    def test_a_change_of_last_week_is_none(self) -> None:
        lives = self.lives(engine_version="0.12.0", first_seen=NOON - timedelta(days=2))
        assert list(found(case(**lives))) == ["unknown"]

    def test_an_engine_that_adapts_says_so(self) -> None:
        said = found(case(life=replace(life("a"), adapts="by load")))
        assert said == {"adaptive": "The engine moves the number of tokens itself (by load)."}


def test_the_likeliest_come_first_and_three_are_enough() -> None:
    many = case(
        waiting_share=0.4, preemptions_per_minute=5.0, kv_usage_max=0.99, acceptance_length_since_start=0.5,
        mean_draft_tokens=1.0,
    )
    assert list(found(many, limit=3)) == ["decay", "memory", "saturated"]
