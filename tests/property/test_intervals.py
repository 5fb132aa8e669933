"""Whatever a server does between pages: intervals add up to its own counters, and nothing is counted twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.intervals.adding import over_time
from monitor.intervals.server import advance
from monitor.intervals.track import Context, Track, resume
from monitor.model.counts import Counts
from monitor.model.interval import Interval
from monitor.model.life import Head, Life, LifeId
from monitor.model.reading import Flag, Reading, Verdict
from tests.fakes.readings import SERVER, Counted, engine_reading, reading

BOOT = "boot"


@dataclass(frozen=True)
class Happening:
    """What happens in one scrape interval: work, perhaps a restart at its start, perhaps no page at its end."""

    steps: int
    requests: int
    restart: bool
    page: bool


HAPPENINGS = st.lists(
    st.builds(
        Happening,
        steps=st.integers(0, 200),
        requests=st.integers(0, 5),
        restart=st.booleans().flatmap(lambda yes: st.just(yes) if not yes else st.booleans()),
        page=st.integers(0, 9).map(lambda n: n > 0),
    ),
    min_size=2,
    max_size=25,
)


@dataclass
class Stored:
    """What a store would hold after following the readings."""

    lives: dict[LifeId, Life]
    heads: dict[LifeId, Head]
    intervals: list[Interval]
    verdicts: list[Verdict]


def pages_of(happenings: Sequence[Happening], *, evidence: bool, first: Counted) -> list[Reading]:
    engine, pages = first, [reading(0, engine_reading(first))]
    for index, happening in enumerate(happenings):
        at = 15.0 * (index + 1)
        if happening.restart:
            engine = Counted(started=at - 10 if evidence else None)
        engine = engine.after(happening.steps, happening.requests)
        if happening.page:
            pages.append(reading(at, engine_reading(engine)))
    return pages


def follow(pages: Sequence[Reading], deaths: frozenset[int] = frozenset()) -> Stored:
    stored = Stored({}, {}, [], [])
    track = Track(server=SERVER)
    for index, page in enumerate(pages):
        if index in deaths:
            track = resume(SERVER, stored.lives.values(), stored.heads)
        step = advance(track, page, boot_id=BOOT, context=Context(scrape_seconds=15.0))
        track = step.track
        stored.lives |= {life.id: life for life in step.lives}
        stored.heads |= {head.life: head for head in step.heads}
        stored.intervals += step.intervals
        stored.verdicts.append(step.verdict)
    return stored


def total(stored: Stored, life: LifeId) -> Counts:
    found = [interval for interval in stored.intervals if interval.life == life]
    if not found:
        return Counts()
    added = over_time(found)
    return Counts(added.speculation, added.traffic, added.latency)


def tokens(counts: Counts) -> float:
    return (counts.traffic.generation_tokens or 0) if counts.traffic is not None else 0


def drafts(counts: Counts) -> float:
    return (counts.speculation.num_drafts or 0) if counts.speculation is not None else 0


OLD = Counted(steps=5000, requests=100, started=-900)


@settings(max_examples=100, deadline=None)
@given(HAPPENINGS, st.frozensets(st.integers(1, 25), max_size=5))
def test_intervals_add_up_to_the_servers_own_counters_also_across_our_death(
    happenings: list[Happening], deaths: frozenset[int]
) -> None:
    stored = follow(pages_of(happenings, evidence=True, first=OLD), deaths)
    first = next(iter(stored.lives))
    for life in stored.lives.values():
        base = Counts() if life.counts_from_zero else OLD.counts()
        head = stored.heads[life.id].counts
        assert life.counts_from_zero is (life.id != first)
        assert drafts(total(stored, life.id)) == drafts(head) - drafts(base)
        assert tokens(total(stored, life.id)) == tokens(head) - tokens(base)


@settings(max_examples=100, deadline=None)
@given(HAPPENINGS, st.data())
def test_leaving_pages_out_changes_no_sum_of_a_life(happenings: list[Happening], data: st.DataObject) -> None:
    calm = [replace(happening, restart=False) for happening in happenings]
    pages = pages_of(calm, evidence=True, first=OLD)
    kept = [page for page in pages[1:-1] if data.draw(st.booleans())]
    all_of, some_of = follow(pages), follow([pages[0], *kept, pages[-1]])
    if len(pages) < 2:
        return
    [life] = all_of.lives
    assert total(all_of, life) == total(some_of, life)
    assert over_time(all_of.intervals).elapsed_seconds == over_time(some_of.intervals).elapsed_seconds


@settings(max_examples=100, deadline=None)
@given(HAPPENINGS)
def test_without_start_times_nothing_is_counted_that_did_not_happen(happenings: list[Happening]) -> None:
    pages = pages_of(happenings, evidence=False, first=replace(OLD, started=None))
    stored = follow(pages)
    happened = sum(Counted().after(one.steps).generation_tokens + one.requests for one in happenings)
    assert sum(tokens(Counts(None, one.traffic, None)) for one in stored.intervals) <= happened + len(happenings)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60)), min_size=3, max_size=40), st.integers(1, 40))
def test_workers_that_take_turns_never_make_a_burst(turns: list[tuple[int, int]], ratio: int) -> None:
    workers = [Counted(steps=100_000, started=None), Counted(steps=100_000 // ratio + 3_000, started=None)]
    pages = []
    for index, (worker, steps) in enumerate(turns):
        workers = [one.after(steps) for one in workers]
        pages.append(reading(15.0 * index, engine_reading(workers[worker])))
    happened = sum(2 * Counted().after(steps).generation_tokens + 4 for _, steps in turns)
    stored = follow(pages)
    counted = sum(tokens(Counts(None, one.traffic, None)) for one in stored.intervals)
    jumps = sum(
        abs(tokens(a.engines[0].counts) - tokens(b.engines[0].counts)) > 1000
        for a, b in pairwise(pages)
    )
    # One step up to the other worker cannot be told from work; every step down, and every return, is noticed.
    assert len(stored.lives) <= 2
    if jumps >= 2:
        assert Verdict.INCONSISTENT_ENDPOINT in stored.verdicts or Verdict.RESET_DETECTED in stored.verdicts
    first_up = max(tokens(page.engines[0].counts) for page in pages)
    assert counted <= happened + first_up * (jumps > 0)


@settings(max_examples=100, deadline=None)
@given(HAPPENINGS, st.booleans())
def test_no_interval_is_negative_or_contradicts_itself(happenings: list[Happening], evidence: bool) -> None:
    for interval in follow(pages_of(happenings, evidence=evidence, first=OLD)).intervals:
        assert interval.elapsed_seconds > 0
        assert 0 < interval.speculation_seconds <= interval.elapsed_seconds
        assert Flag.IDENTITIES_BROKEN not in interval.flags
        counts = interval.speculation
        assert counts is not None
        assert counts.num_drafts is not None
        assert counts.num_draft_tokens is not None
        assert counts.num_accepted_tokens is not None
        assert counts.accepted_per_pos is not None
        assert 0 <= counts.num_accepted_tokens <= counts.num_draft_tokens <= 3 * counts.num_drafts
        assert sum(counts.accepted_per_pos) == counts.num_accepted_tokens
        assert interval.latency is not None
        assert interval.latency.inter_token is not None
        assert interval.latency.inter_token.count == counts.num_drafts


@settings(max_examples=100, deadline=None)
@given(HAPPENINGS)
def test_keys_of_intervals_are_unique_and_in_order(happenings: list[Happening]) -> None:
    stored = follow(pages_of(happenings, evidence=True, first=OLD))
    keys = [(interval.life, interval.end) for interval in stored.intervals]
    assert len(set(keys)) == len(keys)
    for earlier, later in pairwise(stored.intervals):
        assert earlier.end == later.start
