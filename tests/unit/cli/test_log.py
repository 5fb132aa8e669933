"""What becomes of a line of the log that cannot be written."""

from __future__ import annotations

import io
import logging

import pytest

from monitor.cli.running import LogHandler


class Lacking:
    """An argument that cannot be made into text."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __str__(self) -> str:
        raise self.error


@pytest.mark.parametrize(("error", "is_told"), [(MemoryError(), False), (ValueError("odd"), True)])
def test_a_line_without_memory_for_it_is_left_out_and_any_other_is_told(
    capsys: pytest.CaptureFixture[str], error: Exception, is_told: bool
) -> None:
    written = io.StringIO()
    handler = LogHandler(written)
    handler.handle(logging.LogRecord("x", logging.INFO, "x.py", 1, "acting failed: %s", (Lacking(error),), None))
    handler.handle(logging.LogRecord("x", logging.INFO, "x.py", 1, "it goes on", (), None))
    assert written.getvalue() == "it goes on\n"
    assert ("Traceback" in capsys.readouterr().err) is is_told
