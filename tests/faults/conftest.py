from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.counted import CountedServer
from tests.faults.daemon import FaultyDaemon
from tests.integration.postgres import postgres_server

__all__ = ["postgres_server"]


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Callable[..., FaultyDaemon]]:
    """Makes daemons that watch servers; they are stopped at the end, whatever happened."""
    made: list[FaultyDaemon] = []

    def make(*servers: CountedServer, **settings: object) -> FaultyDaemon:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(FaultyDaemon(folder, *servers, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for daemon in made:
        daemon.tear_down()
