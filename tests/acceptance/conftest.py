from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.daemon import Daemon, Simulated
from tests.fakes.slack_server import SlackServer
from tests.integration.browser import browser
from tests.integration.postgres import postgres_server

__all__ = ["browser", "postgres_server"]


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server


@pytest.fixture
def make_daemon(tmp_path: Path, slack: SlackServer) -> Iterator[Callable[..., Daemon]]:
    """Makes daemons that are stopped with their servers at the end, whatever happened."""
    made: list[Daemon] = []

    def make(*servers: Simulated, **settings: object) -> Daemon:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Daemon(folder, slack, *servers, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for daemon in made:
        daemon.tear_down()
