"""The curves of a page: which are there at every span, and that it is said where some are left out."""

from __future__ import annotations

import pytest

from monitor.report.history import SPANS, history
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.story import CHAT_1, CHAT_2, write_story

NOW = FakeClock().now()


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    made = MemoryStore()
    write_story(made, NOW)
    return made


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("servers", [[CHAT_1], [CHAT_1, CHAT_2]])
def test_a_server_and_a_small_group_have_every_curve_at_every_span(
    store: MemoryStore, servers: list[str], span: str
) -> None:
    with store.read() as unit:
        found = history(unit, servers, SPANS[span], NOW)  # type: ignore[arg-type]
    assert found["has_latencies"]
    for curve in ("acceptance_rate", "acceptance_length", "generation_tokens_per_second", "step_seconds", "running",
                  "kv_usage", "time_to_first_token_seconds_p95", "time_per_output_token_seconds_p95"):
        assert any(row[curve] is not None for row in found["rows"]), curve


def test_of_many_servers_over_months_latencies_are_left_out_and_that_is_said(store: MemoryStore) -> None:
    names = [CHAT_1, *(f"other-{number}" for number in range(8))]
    with store.read() as unit:
        found = history(unit, names, SPANS["90d"], NOW)  # type: ignore[arg-type]
    assert not found["has_latencies"]
    assert all(row["time_to_first_token_seconds_p95"] is None for row in found["rows"])
    assert any(row["acceptance_rate"] is not None for row in found["rows"])
