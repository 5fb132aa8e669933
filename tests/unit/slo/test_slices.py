from __future__ import annotations

from monitor.model.slo import Indicator
from monitor.slo.slices import SliceEvent, SliceTally
from tests.unit.slo.slos import interval, seconds, slo

ACCEPTANCE = slo(Indicator.ACCEPTANCE, 0.6)
THROUGHPUT = slo(Indicator.THROUGHPUT, 100.0)


def test_a_slice_is_judged_on_its_pooled_counts_when_the_next_begins() -> None:
    tally = SliceTally(ACCEPTANCE)
    # The mean of the two rates is 0.5, the pooled one 0.66: counts are pooled.
    assert tally.add(interval(100, drafts=900, draft_tokens=900, accepted=630)) is None
    assert tally.add(interval(300, drafts=100, draft_tokens=100, accepted=30)) is None
    assert tally.add(interval(301, drafts=100, draft_tokens=100, accepted=0)) == SliceEvent(seconds(300), True, True)
    assert tally.close(seconds(600)) is None
    assert tally.close(seconds(601)) == SliceEvent(seconds(600), False, True)


def test_with_too_few_drafts_a_slice_is_not_judged_at_all() -> None:
    tally = SliceTally(ACCEPTANCE)
    tally.add(interval(100, drafts=99, draft_tokens=99, accepted=0))
    assert tally.close(seconds(301)) == SliceEvent(seconds(300), False, False)
    tally.add(interval(400))
    assert tally.close(seconds(601)) == SliceEvent(seconds(600), False, False)


def test_what_comes_after_its_slice_was_judged_is_ignored() -> None:
    tally = SliceTally(ACCEPTANCE)
    tally.add(interval(100, drafts=100, draft_tokens=100, accepted=90))
    tally.close(seconds(301))
    assert tally.add(interval(200, drafts=900, draft_tokens=900, accepted=0)) is None
    assert tally.close(seconds(601)) == SliceEvent(seconds(600), False, False)


def test_history_over_longer_spans_stands_for_as_many_slices() -> None:
    tally = SliceTally(slo(Indicator.ACCEPTANCE, 0.6, slice_seconds=60.0))
    tally.add(interval(300, elapsed=300.0, drafts=1000, draft_tokens=1000, accepted=700))
    assert tally.close(seconds(301)) == SliceEvent(seconds(300), True, True, 5.0)
    tally.add(interval(600, elapsed=300.0, drafts=1000, draft_tokens=1000, accepted=700, is_gap=True))
    assert tally.close(seconds(601)) == SliceEvent(seconds(600), True, True, 1.0)


def test_nothing_is_judged_before_anything_came() -> None:
    assert SliceTally(ACCEPTANCE).close(seconds(1e6)) is None


class TestThroughput:
    def test_engines_of_one_server_add_up(self) -> None:
        tally = SliceTally(THROUGHPUT)
        for life in ("engine-0", "engine-1"):
            for end in range(15, 301, 15):
                tally.add(interval(end, life=life, tokens=15 * 60.0, running=3.0))
        assert tally.close(seconds(301)) == SliceEvent(seconds(300), True, True)

    def test_one_process_after_another_does_not(self) -> None:
        tally = SliceTally(THROUGHPUT)
        for end in range(15, 301, 15):
            tally.add(interval(end, life="old" if end <= 150 else "new", tokens=15 * 60.0, running=3.0))
        assert tally.close(seconds(301)) == SliceEvent(seconds(300), False, True)

    def test_the_edge_of_a_busy_time_is_not_judged(self) -> None:
        tally = SliceTally(THROUGHPUT)
        for end in range(15, 301, 15):
            tally.add(interval(end, tokens=1.0, running=3.0 if end <= 120 else 0.0))
        assert tally.close(seconds(301)) == SliceEvent(seconds(300), False, False)
