"""Alerts in, notices out, to the word: the files in `tests/golden/notices` are the stories.

`WRITE_STORIES=1` writes them anew; read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from monitor.model.rollout import ChangeState
from tests.fakes.slack_server import Failure
from tests.integration.notify.timeline import Shift, check

WRITE = os.environ.get("WRITE_STORIES") == "1"


@pytest.fixture
def shift(tmp_path: Path) -> Iterator[Callable[..., Shift]]:
    made: list[Shift] = []

    def make(*servers: str, with_slos: bool = False) -> Shift:
        one = Shift(tmp_path, *servers, with_slos=with_slos)
        one.slack.__enter__()
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()
        one.slack.__exit__()


def test_a_daemon_that_is_restarted_every_minute_pages_as_one_that_is_not(shift: Callable[..., Shift]) -> None:
    one = shift("chat-1", "chat-2")
    # The answer to the first message is lost, and the daemon with it: the message must not be there twice.
    one.slack.fail_next(Failure(method="chat.postMessage", hangs_up=True, accepts=True))
    one.note("from now on the daemon is killed and started again every minute")
    for minute in range(1, 48):
        one.run(minute, at={2: lambda: one.down("chat-1"), 40: lambda: one.up("chat-1")})
        one.restart(quietly=True)
    check("restarts", one.lines, write=WRITE)
    assert one.open_posts() == []


def test_while_slack_is_away_nothing_is_lost_doubled_or_out_of_order(shift: Callable[..., Shift]) -> None:
    one = shift("chat-1", "code-1")

    def away() -> None:
        one.note("Slack is away")
        one.slack.always = Failure(503)

    def back() -> None:
        one.note("Slack is back")
        one.slack.always = None

    one.run(
        40,
        at={2: away, 3: lambda: one.down("chat-1"), 6: lambda: one.down("code-1"), 8: lambda: one.up("chat-1"),
            12: back, 20: lambda: one.up("code-1")},
    )  # fmt: skip
    check("slack-away", one.lines, write=WRITE)
    assert one.open_posts() == []


def test_a_storm_under_429_is_one_message_that_is_closed_as_it_was_told(shift: Callable[..., Shift]) -> None:
    names = [f"g{number:02}-1" for number in range(24)]
    one = shift(*names)

    def limited() -> None:
        one.down(*names)
        one.note("Slack answers 429 with Retry-After: 40, three times")
        one.slack.fail_next(*[Failure(429, "ratelimited", {"Retry-After": "40"})] * 3)

    one.run(32, at={2: limited, 12: lambda: one.up(*names[:20]), 24: lambda: one.up(*names[20:])})
    check("storm", one.lines, write=WRITE)
    assert one.open_posts() == []
    posts = [request for request in one.slack.requests if request[0] == "chat.postMessage"]
    assert len(posts) == 3 + len([kind for kind, _ in one.slack.events if kind != "edit"])


def test_one_that_flaps_is_told_less_and_less_often(shift: Callable[..., Shift]) -> None:
    one = shift("chat-1", "chat-2")
    at: dict[int, Callable[[], None]] = {}
    for minute in range(2, 74, 12):
        at[minute] = lambda: one.down("chat-1")
        at[minute + 5] = lambda: one.up("chat-1")
    one.run(100, at=at)
    check("flapping", one.lines, write=WRITE)
    assert one.open_posts() == []


def test_maintenance_is_quiet_and_its_end_is_announced(shift: Callable[..., Shift]) -> None:
    one = shift("chat-1", "code-1")
    one.run(
        95,
        at={
            1: lambda: one.silence("group", "chat", 40, "moving racks"),
            2: lambda: one.change("code-1", ChangeState.RESTARTING),
            3: lambda: one.down("chat-1", "code-1"),
            10: lambda: one.up("code-1"),
            11: lambda: one.change("code-1", ChangeState.OBSERVING),
            20: one.restart,
            # Acknowledged, it is not repeated every half hour.
            44: lambda: one.acknowledge("ServerDown"),
            90: lambda: one.up("chat-1"),
        },
    )
    check("maintenance", one.lines, write=WRITE)
    assert one.open_posts() == []


def test_a_token_that_is_revoked_is_told_where_somebody_still_reads(shift: Callable[..., Shift]) -> None:
    one = shift("chat-1", "code-1")

    def revoked() -> None:
        one.note("the bot token is revoked")
        one.slack.always = Failure(200, "token_revoked")

    def renewed() -> None:
        one.note("a new token is in its place")
        one.slack.always = None

    one.run(
        40,
        at={2: revoked, 3: lambda: one.down("chat-1"), 20: renewed, 22: lambda: one.up("chat-1")},
    )
    check("revoked", one.lines, write=WRITE)


def test_what_burns_a_budget_pages_by_its_own_name_and_once(shift: Callable[..., Shift]) -> None:
    one = shift("chat-1", "code-1", with_slos=True)
    # Every request fails: the budget is quicker to page than ServerErrors, and slower to forget. The same for a
    # server that is down: nobody is told again of what is over.
    one.run(
        180,
        at={90: lambda: one.fail("chat-1", 1.0), 93: one.restart, 110: lambda: one.fail("chat-1", 0.0),
            115: lambda: one.down("code-1"), 127: lambda: one.up("code-1"), 131: one.restart},
    )  # fmt: skip
    check("budget", one.lines, write=WRITE)
