"""What every test run has: somebody who tidies up after it, however it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes import reaper


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Processes that tests start do not outlive the run, also where it is killed or runs into a time limit."""
    with reaper.tidied():
        yield
