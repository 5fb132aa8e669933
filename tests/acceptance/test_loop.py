"""The whole loop: watched, recommended, restarted, measured, told; a change that loses is taken back."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Browser, expect

from tests.acceptance.daemon import PATIENCE, Daemon, Simulated
from tests.integration.browser import tab

BUSY = "closed:clients=16,prompt=160,output=120,hits=0.3"


def test_a_change_that_loses_is_measured_and_taken_back_and_slack_gets_the_story(
    make_daemon: Callable[..., Daemon],
) -> None:
    server = Simulated("code", tokens=3, load=BUSY, faults=("worse_k=4:1.8",))
    daemon = make_daemon(server, mode="approve")
    daemon.with_buttons("U0ANN")
    daemon.start()
    (told,) = daemon.wait(lambda: daemon.told("raise num_speculative_tokens 3 -> 4") or None, "a recommendation")
    assert told.thread_ts is None
    slack = daemon.slack
    assert slack is not None
    slack.socket.wait_connected(seconds=PATIENCE)
    # Who is not on the list changes nothing; who is starts it, and the message shows that it was answered.
    slack.press(told, "acceptd_approve", user="U0EVE", name="eve")
    daemon.wait(lambda: slack.whispers or None, "the word to who may not")
    assert server.tokens() == 3 and "acceptd_approve" in told.whole()
    slack.press(told, "acceptd_approve", user="U0ANN", name="ann")
    daemon.wait(lambda: "approved: raise" in told.text or None, "the answer where the buttons were")
    assert "slack:U0ANN (ann)" in told.whole() and "acceptd_" not in told.whole()
    daemon.wait(lambda: server.tokens() == 4, "the server comes back with the new setting")
    change = daemon.wait(lambda: daemon.change_in(server, "rolled_back"), "the change is taken back")
    assert change.measured is not None and change.measured.gain is not None
    assert change.measured.gain < -0.1
    daemon.wait(lambda: server.tokens() == 3 and server.generates(), "the server serves with its former setting")
    (result,) = daemon.wait(lambda: daemon.told("rollout finished") or None, "the result in Slack")
    assert "measured goodput" in result.whole() and "-" in result.whole().partition("measured goodput")[2]
    progress = [message for message in daemon.messages() if message.thread_ts == told.ts]
    assert len(progress) >= 4
    # Nobody is woken for what went as planned, and the setting is not tried again.
    assert daemon.told("RestartFailed") == []
    with daemon.store() as store, store.read() as unit:
        (rejection,) = unit.rejections.of("code")  # type: ignore[arg-type]
        rollouts = unit.rollouts.active()
        said_by = {(entry.actor, entry.what) for entry in unit.audit.recent(200)}
    assert {("slack:U0EVE (eve)", "slack.refused"), ("slack:U0ANN (ann)", "command.approve")} <= said_by
    assert (rejection.num_speculative_tokens, rollouts) == (4, [])
    said = daemon.command("why", "code")
    assert said.returncode == 0, said.stderr
    daemon.stop()
    assert server.generates()


def test_a_change_that_is_approved_on_the_page_and_pays_is_kept(
    make_daemon: Callable[..., Daemon], browser: Browser
) -> None:
    # Steps of three tokens and more are as fast as those of two: a raise must pay.
    server = Simulated("chat", tokens=1, method="mtp", load=BUSY)
    daemon = make_daemon(server, mode="approve")
    daemon.start()
    daemon.wait(lambda: daemon.told("raise num_speculative_tokens 1 -> 2") or None, "a recommendation")
    with tab(browser) as page:
        page.goto(f"http://{daemon.running()['listen']}/")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("status")).to_contain_text("rollout r-")
        page.goto(f"http://{daemon.running()['listen']}/groups/chat")
        expect(page.get_by_text("changing to mtp, 2 tokens").first).to_be_visible()
    change = daemon.wait(lambda: daemon.change_in(server, "promoted"), "a change is kept")
    assert change.measured is not None and change.measured.gain is not None and change.measured.gain > 0
    assert change.proposed.num_speculative_tokens == 2
    daemon.wait(lambda: daemon.told("rollout finished", "measured goodput") or None, "the result in Slack")
    assert server.tokens() == 2
    life = daemon.wait(lambda: daemon.setting(server), "the new life is known")
    assert life.num_speculative_tokens == 2
