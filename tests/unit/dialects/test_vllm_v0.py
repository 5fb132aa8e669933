"""What a V0 engine prints, and what of it is true: against the log of a real one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from monitor.dialects import ServerReader
from monitor.dialects.vllm_v0 import find_tokens, is_first_report, length_of
from monitor.model.counts import V0Sums
from monitor.model.reading import Flag, Reading, Verdict
from monitor.model.server import ServerName
from tests.fakes.mutations import SAMPLES
from tests.fakes.pages import v0_page


def read(*bodies: bytes) -> list[Reading]:
    reader = ServerReader(ServerName("s"))
    at = datetime(2026, 9, 1, tzinfo=UTC)
    return [reader.read(body, scraped_at=at, monotonic=15.0 * index) for index, body in enumerate(bodies)]


LIVE = [(SAMPLES / f"vllm_0.8.5_v0_{name}.prom").read_bytes() for name in ("12s", "30s", "42s")]


def test_a_real_server_tells_its_setting_from_two_pages_and_its_length_as_its_log_does() -> None:
    first, second, third = read(*LIVE)
    assert first.engines[0].num_speculative_tokens is None
    assert [one.engines[0].num_speculative_tokens for one in (second, third)] == [3, 3]
    engine = third.engines[0]
    assert length_of(engine.v0, 3) == pytest.approx(18_250 / 7_518, abs=1e-4)  # emitted / drafts of its own log
    counts = engine.counts.speculation
    assert counts is not None
    assert counts.num_drafts == pytest.approx(7_518, rel=0.01)
    assert counts.num_accepted_tokens == pytest.approx(18_250 - 7_518, rel=0.01)
    assert counts.accepted_per_pos is None
    assert engine.counts.traffic is not None
    assert engine.counts.traffic.generation_tokens == 18_340  # the counter itself says 7,714
    assert Flag.V0_COUNTERS_UNRELIABLE in third.flags


def test_a_real_server_before_its_first_request() -> None:
    [reading] = read((SAMPLES / "vllm_0.8.5_v0_before_first_draft.prom").read_bytes())
    assert reading.verdict is Verdict.NO_SAMPLES_YET
    assert not reading.engines


def sums(drafts: list[int], k: int, lengths: list[float], masks: list[float]) -> list[V0Sums]:
    """What V0 prints after each report, from true totals: counters that add running totals up."""
    pages, accepted, drafted, emitted = [], 0.0, 0.0, 0.0
    for count, length, mask in zip(drafts, lengths, masks, strict=True):
        accepted += count * k * mask
        drafted += count * k
        emitted += count * length
        pages.append(V0Sums(length / (k + 1), mask, accepted, drafted, emitted))
    return pages


@pytest.mark.parametrize("k", [1, 2, 3, 5, 7])
def test_the_setting_from_consecutive_reports(k: int) -> None:
    pages = sums(
        [1000, 2100, 3300, 4200], k, [1 + 0.5 * k, 1 + 0.46 * k, 1 + 0.44 * k, 1 + 0.43 * k], [0.7, 0.67, 0.65, 0.64]
    )
    assert find_tokens(pages[0], None) == k
    assert is_first_report(pages[0])
    assert find_tokens(pages[1], None) is None
    assert find_tokens(pages[2], pages[1]) == k
    assert find_tokens(pages[3], pages[0]) == k  # three reports between two pages


def test_no_setting_where_nothing_was_reported_in_between() -> None:
    pages = sums([1000, 2100], 3, [2.5, 2.4], [0.7, 0.67])
    assert find_tokens(pages[1], pages[1]) is None
    assert find_tokens(V0Sums(), pages[0]) is None
    assert find_tokens(None, None) is None


def test_perfect_acceptance_never_passes_for_a_first_report() -> None:
    pages = sums([1000, 2100], 3, [4.0, 4.0], [1.0, 1.0])
    assert not is_first_report(pages[1])


@pytest.mark.parametrize(
    ("page", "verdict"),
    [
        (v0_page(efficiency="NaN", rate="NaN", accepted=0, drafted=0, emitted=0), Verdict.NO_DRAFTS_YET),
        (v0_page(generation=500), Verdict.NOT_SPEC_DECODE),
        (v0_page(efficiency=0.5, rate=0.6), Verdict.OK),
        (v0_page(efficiency=1.5, rate="Inf"), Verdict.NO_DRAFTS_YET),
    ],
    ids=["NaN", "declared only", "gauges only", "impossible gauges"],
)
def test_verdicts(page: bytes, verdict: Verdict) -> None:
    [reading] = read(page)
    assert (reading.dialect, reading.verdict) == ("vllm_v0", verdict)


def test_a_setting_once_found_is_kept() -> None:
    first = v0_page(efficiency=0.6, rate=0.65, accepted=1950, drafted=3000, emitted=2400, generation=1100, steps=1000)
    later = v0_page(efficiency=0.5, rate=0.6, accepted=2e5, drafted=3e5, emitted=2e5, generation=90_000, steps=80_000)
    assert [one.engines[0].num_speculative_tokens for one in read(first, later)] == [3, 3]


def test_a_model_that_lost_its_averages_does_not_silence_the_one_that_has_them() -> None:
    lost = v0_page(drafted=3000, emitted=2400)
    told = v0_page(efficiency=0.56, rate=0.6).replace(b'model_name="model-a"', b'model_name="model-b"')
    [reading] = read(lost + told.partition(b"process_start_time_seconds")[2].partition(b"\n")[2])
    assert (reading.dialect, reading.verdict) == ("vllm_v0", Verdict.OK)
    assert "56.0% of the k + 1 tokens" in reading.reason
