"""The whole loop on a real vLLM server: watch, decide, restart, measure, keep or revert, page, recover, report."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.model.decision import Action, Reason
from monitor.model.rollout import Change, ChangeState, Outcome
from tests.engines.harness import NAME, Daemon
from tests.fakes.slack_server import SlackServer
from tests.rigs.load import Load
from tests.rigs.processes import free_port
from tests.rigs.vllm.server import draft_model, ngram, vllm_argv, vllm_env

pytestmark = pytest.mark.vllm

#: Seconds. A start takes 15 on a quiet machine. A stop under load takes one, or all it may: vLLM ends its engine first
#: and then waits for answers that cannot come any more.
START, CHANGE, SETTLE = 240, 1200, 240

LIMITS: dict[str, object] = {
    "max_speculative_tokens": 8, "allow_downtime": True, "cut_after_drain": True, "changes_per_day": 1,
    "cooldown": "0s", "drain_limit": "3s", "stop_limit": "20s", "start_limit": "180s", "warmup": "5s",
    "observe": "60s", "restarts_per_day": 20,
}  # fmt: skip


def rules(tuning: str, **more: str) -> dict[str, object]:
    """Rules with a window of a minute: the load is steady, so it shows what a day would."""
    times = {f"{rule}-tokens.{what}": value for rule in ("raise", "lower") for what, value in
             (("window", "60s"), ("for", "10s"))}
    return {"tuning": tuning, "interval": "5s", "baseline_window": "10s", "parameters": {**times, **more}}


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server


@pytest.fixture
def make(tmp_path: Path, slack: SlackServer) -> Iterator[type[Daemon] | object]:
    made: list[Daemon] = []

    def build(**options: object) -> Daemon:
        port = free_port()
        speculation = options.pop("speculation")
        command = vllm_argv(port, speculation=speculation)  # type: ignore[arg-type]
        wrap = options.pop("wrap", None)
        if wrap is not None:
            command = [sys.executable, str(wrap), *command]
        options.setdefault("limits", LIMITS)
        daemon = Daemon(tmp_path, slack, command=command, env=vllm_env(), port=port, **options)  # type: ignore[arg-type]
        made.append(daemon)
        return daemon

    yield build
    for daemon in made:
        daemon.tear_down()


def stored_equals_the_page(daemon: Daemon) -> None:
    """What is stored of the life that runs now equals the server's own counters, to the digit."""
    names = {
        "num_drafts": "vllm:spec_decode_num_drafts_total",
        "num_draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
        "num_accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
        "generation_tokens": "vllm:generation_tokens_total",
        "prompt_tokens": "vllm:prompt_tokens_total",
    }

    def equal() -> bool | None:
        with daemon.store() as store, store.read() as unit:
            lives = unit.lives.open_of(NAME)  # type: ignore[arg-type]
            if len(lives) != 1:
                return None
            totals = unit.intervals.totals(lives[0].id)
        return all(getattr(totals, name) == daemon.counter(counter) for name, counter in names.items()) or None

    # The load has ended: within a scrape or two nothing moves any more.
    daemon.wait(equal, 60, "the store equals the server's own counters")


def report_tells(daemon: Daemon, change: Change) -> None:
    """The report says of the change what was measured, and nothing else."""
    group = daemon.json("report")["groups"][0]
    told = next(one for one in group["changes"] if one["new"] == change.proposed.describe())
    assert told["outcome"].startswith(change.state.value)
    assert change.measured is not None
    assert told["gain"] == pytest.approx(change.measured.gain)
    assert told["sentence"] == change.sentence
    # Markdown puts a backslash before every underscore.
    assert change.proposed.describe() in daemon.run("report").replace("\\", "")


def verdict_follows_from_what_was_measured(change: Change) -> None:
    """Kept only where it is better or more likely so, undone where it is worse."""
    measured = change.measured
    assert measured is not None and measured.gain is not None, change
    if change.state is ChangeState.PROMOTED:
        assert measured.gain >= 0, change
    else:
        assert change.state is ChangeState.ROLLED_BACK, change
        assert measured.gain < 0 or change.outcome is Outcome.GUARD_TRIPPED, change


def test_a_raise_that_pays_is_made_measured_kept_told_and_reported(make, slack: SlackServer) -> None:  # type: ignore[no-untyped-def]
    daemon = make(speculation=ngram(2), rules=rules("threshold"))
    daemon.start()
    daemon.wait(daemon.serves, START, "the server serves")
    with Load(daemon.url, clients=2):
        change = daemon.wait(daemon.finished(), CHANGE, "the change is judged")
    assert (change.current.num_speculative_tokens, change.proposed.num_speculative_tokens) == (2, 3)
    assert change.state is ChangeState.PROMOTED, change
    verdict_follows_from_what_was_measured(change)
    assert daemon.tokens_on_page() == 3
    stored_equals_the_page(daemon)
    report_tells(daemon, change)

    def told() -> bool | None:
        return any("rollout finished" in message.whole() for message in daemon.posts()) or None

    daemon.wait(told, SETTLE, "Slack has the result")
    recommendation = next(m for m in daemon.posts() if "raise num_speculative_tokens 2 -> 3" in m.whole())
    thread = [message for message in slack.messages if message.thread_ts == recommendation.ts]
    assert any("is ready with ngram, 3 tokens" in message.whole() for message in thread)
    assert any("change kept" in message.whole() for message in thread)
    assert daemon.pages() == []
    view = daemon.json("status")["groups"][0]["servers"][0]
    assert view["num_speculative_tokens"] == 3
    daemon.stop()
    assert daemon.serves(), "stopping the daemon must not stop the server"


def test_a_change_on_the_draft_model_is_kept_or_undone_as_measured(make) -> None:  # type: ignore[no-untyped-def]
    daemon = make(speculation=draft_model(5, "draft-fair"), rules=rules("threshold"))
    daemon.start()
    daemon.wait(daemon.serves, START, "the server serves")
    with Load(daemon.url, clients=2):
        change = daemon.wait(daemon.finished(), CHANGE, "the change is judged")
    assert (change.current.num_speculative_tokens, change.proposed.num_speculative_tokens) == (5, 4)
    verdict_follows_from_what_was_measured(change)
    kept = change.proposed if change.state is ChangeState.PROMOTED else change.current
    assert daemon.tokens_on_page() == kept.num_speculative_tokens
    report_tells(daemon, change)
    stored_equals_the_page(daemon)


def test_a_draft_that_never_fits_ends_with_speculation_off(make) -> None:  # type: ignore[no-untyped-def]
    daemon = make(
        speculation=draft_model(3, "draft-bad"), rules=rules("guarded"),
        limits={**LIMITS, "allow_off": True, "observe": "180s"},
    )
    daemon.start()
    daemon.wait(daemon.serves, START, "the server serves")
    with Load(daemon.url, clients=2):
        change = daemon.wait(daemon.finished(), CHANGE, "the change is judged")
        decision = _decision_of(daemon, change)
    assert (decision.action, decision.reason) == (Action.OFF, Reason.WRONG_PAIR)
    assert "another draft" in decision.sentence
    assert decision.threshold is not None and decision.threshold.num_speculative_tokens == 2
    assert change.proposed.is_off
    assert change.state is ChangeState.PROMOTED, change
    assert daemon.tokens_on_page() == 0
    report_tells(daemon, change)


def _decision_of(daemon: Daemon, change: Change):  # type: ignore[no-untyped-def]
    with daemon.store() as store, store.read() as unit:
        rollout = unit.rollouts.get(change.rollout)
        assert rollout is not None
        return unit.decisions.get(rollout.decision)


def test_an_engine_that_hangs_behind_a_healthy_answer_is_paged_and_restarted_once(make) -> None:  # type: ignore[no-untyped-def]
    daemon = make(
        speculation=ngram(2), rules=rules("threshold"),
        limits={**LIMITS, "changes_per_day": 0, "restart_stuck": True},
    )
    daemon.start()
    daemon.wait(daemon.serves, START, "the server serves")
    with Load(daemon.url, clients=2, request_seconds=20):
        daemon.wait(lambda: daemon.counter("vllm:spec_decode_num_drafts_total") > 1000 or None, 60, "drafts")
        engine = _engine_core(daemon)
        daemon.wait(lambda: _stop_at_work(daemon, engine), 60, "the engine stopped at work")
        page = daemon.wait(lambda: next(iter(daemon.pages()), None), CHANGE, "the page")
        assert "has work but generates nothing" in page.first()
        assert "no token generated" in page.first()
        change = daemon.wait(daemon.finished(), CHANGE, "the restart")
    assert change.outcome is Outcome.RESTARTED, change
    assert change.current == change.proposed
    assert daemon.serves()
    kept = daemon.json("evidence", NAME)["parts"]
    assert "vllm:num_requests_running" in kept["page"]
    assert "/health says 200" in kept["health"]
    assert f"{engine} " in kept["process state"] and "state T" in kept["process state"]
    assert kept["log"]
    with daemon.store() as store, store.read() as unit:
        decisions = unit.decisions.since(None, change.entered_at.replace(year=2020))
    assert not [d for d in decisions if d.action in (Action.LOWER, Action.OFF)]
    assert len(daemon.changes()) == 1
    assert len(daemon.pages()) == 1


def _stop_at_work(daemon: Daemon, engine: int) -> bool | None:
    """Stop the engine for good once its page, which lags behind it, says that requests run."""
    os.kill(engine, signal.SIGSTOP)
    time.sleep(1.0)
    if daemon.counter("vllm:num_requests_running") > 0:
        return True
    os.kill(engine, signal.SIGCONT)
    return None


def _engine_core(daemon: Daemon) -> int:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes()
            title = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"VLLM::EngineCore") and str(daemon.data_dir).encode() in environ:
            return int(entry.name)
    raise AssertionError("no engine process of this server")


#: What an operator might wrap a server in: from three tokens on it dies with its first request.
WRAPPER = """
import json, os, sys
argv = sys.argv[1:]
at = argv.index("--speculative-config") + 1
config = json.loads(argv[at])
if config["num_speculative_tokens"] >= 3:
    config = {**config, "method": "draft_model", "model": DRAFT, "rejection_sample_method": "synthetic",
              "synthetic_acceptance_length": 2.0}
    config.pop("prompt_lookup_min"), config.pop("prompt_lookup_max")
    argv[at] = json.dumps(config)
os.execv(argv[0], argv)
"""


def test_a_setting_that_dies_with_its_first_request_is_undone_with_one_page(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    wrapper = tmp_path / "serve.py"
    wrapper.write_text(WRAPPER.replace("DRAFT", repr(draft_model(3)["model"])))
    daemon = make(speculation=ngram(2), rules=rules("threshold"), wrap=wrapper, limits={**LIMITS, "changes_per_day": 9})
    daemon.start()
    daemon.wait(daemon.serves, START, "the server serves")
    with Load(daemon.url, clients=2):
        change = daemon.wait(daemon.finished(), CHANGE, "the change is undone")
        assert change.state is ChangeState.ROLLED_BACK, change
        assert change.outcome in (Outcome.NOT_GENERATING, Outcome.START_FAILED, Outcome.SERVER_DIED), change
        assert daemon.serves()
        assert daemon.tokens_on_page() == 2
        daemon.wait(lambda: daemon.pages() or None, SETTLE, "the page")
        # The rule still holds; the setting that lost is not tried again.
        daemon.wait(lambda: _is_rejected(daemon, change), CHANGE, "the rule fires again and is answered")
    assert len(daemon.changes()) == 1
    assert len(daemon.pages()) == 1, [message.first() for message in daemon.pages()]
    assert daemon.serves()


def _is_rejected(daemon: Daemon, change: Change) -> bool | None:
    with daemon.store() as store, store.read() as unit:
        decisions = unit.decisions.since(None, change.entered_at)
    return any(decision.reason is Reason.REJECTED_BEFORE for decision in decisions) or None


@pytest.mark.parametrize("state", [ChangeState.DRAINING, ChangeState.RESTARTING, ChangeState.WARMING])
def test_a_daemon_killed_while_it_changes_a_server_leaves_it_serving(make, state: ChangeState) -> None:  # type: ignore[no-untyped-def]
    daemon = make(
        speculation=ngram(2), rules=rules("threshold"), limits={**LIMITS, "drain_limit": "8s", "warmup": "15s"}
    )
    daemon.start()
    daemon.wait(daemon.serves, START, "the server serves")
    with Load(daemon.url, clients=2):
        daemon.wait(daemon.change_in(state), CHANGE, f"the change is {state}")
        daemon.kill()
        daemon.start()
        change = daemon.wait(daemon.finished(), CHANGE, "the change has ended")
        daemon.wait(daemon.serves, START, "the server serves")
    assert change.state in (ChangeState.PROMOTED, ChangeState.ROLLED_BACK, ChangeState.ABANDONED)
    expected = change.proposed if change.state is ChangeState.PROMOTED else change.current
    assert daemon.tokens_on_page() == expected.num_speculative_tokens
    assert daemon.pages() == []
    assert json.loads(daemon.run("servers", "--json"))[0]["name"] == NAME
