"""Answers that are no page."""

from __future__ import annotations

import pytest

from monitor.dialects.answers import judge_status
from monitor.model.reading import Verdict


@pytest.mark.parametrize(
    ("status", "body", "verdict", "words"),
    [
        (401, b"", Verdict.SCRAPE_ERROR, "Authorization"),
        (403, b"", Verdict.SCRAPE_ERROR, "refused"),
        (404, b'{"detail":"Not Found"}', Verdict.SCRAPE_ERROR, "not enabled or wrong path"),
        (400, b'{"error":{"message":"model name is missing"}}', Verdict.SCRAPE_ERROR, "per-model query required"),
        (400, b"bad", Verdict.SCRAPE_ERROR, "HTTP 400"),
        (500, b"", Verdict.SCRAPE_ERROR, "HTTP 500"),
        (501, b"", Verdict.SCRAPE_ERROR, "--metrics"),
        (307, b"", Verdict.SCRAPE_ERROR, "redirect"),
        (418, b"", Verdict.SCRAPE_ERROR, "HTTP 418"),
        (503, b"", Verdict.STARTING, "loading"),
        (503, b'{"error":{"message":"Loading model"}}', Verdict.STARTING, "loading"),
        (503, b"<html>Service Temporarily Unavailable</html>", Verdict.SCRAPE_ERROR, "unavailable"),
    ],
)
def test_statuses(status: int, body: bytes, verdict: Verdict, words: str) -> None:
    said, reason = judge_status(status, body)
    assert said is verdict
    assert words in reason
