from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.simulator.engine import Limits
from tests.unit.simulator.engines import assert_identities, engine

LOADS = st.one_of(
    st.builds("closed:clients={},prompt={},output={},think={}".format, st.integers(0, 40), st.integers(1, 900),
              st.integers(1, 300), st.sampled_from([0, 0.05, 2])),
    st.builds("open:rate={},prompt={},output={},hits={}".format, st.sampled_from([0.2, 3, 30]), st.integers(1, 900),
              st.integers(1, 300), st.sampled_from([0, 0.5, 1])),
)
FAULTS = st.lists(
    st.sampled_from(
        ["cliff=0@2", "decay=3", "stuck@2", "sleep@3", "shift=qwen35-mtp@1", "worse_k=2:2", "cold_start=1:4"]
    ),
    max_size=2,
    unique=True,
)


@settings(max_examples=150, deadline=None)
@given(
    k=st.integers(0, 12),
    load=LOADS,
    faults=FAULTS,
    correlation=st.sampled_from([0.0, 0.1, 0.9]),
    coverage=st.sampled_from([0.05, 0.5, 1.0]),
    max_num_seqs=st.integers(1, 64),
    kv_tokens=st.integers(64, 20_000),
    cuts=st.lists(st.floats(0, 1.5), min_size=1, max_size=8),
    outside=st.lists(st.integers(1, 100), max_size=3),
    seed=st.integers(0, 2**32),
)
def test_whatever_happens_the_identities_hold_and_nothing_falls(
    k: int,
    load: str,
    faults: list[str],
    correlation: float,
    coverage: float,
    max_num_seqs: int,
    kv_tokens: int,
    cuts: list[float],
    outside: list[int],
    seed: int,
) -> None:
    limits = Limits(max_num_seqs=max_num_seqs, kv_tokens=kv_tokens)
    one = engine(k, load, faults=faults, correlation=correlation, coverage=coverage, limits=limits, seed=seed)
    for tokens in outside:
        one.submit(20, tokens)
    before: list[float] = []
    for seconds in cuts:
        one.advance(seconds)
        counts = one.counts
        assert_identities(counts, k)
        assert 0 <= one.running <= max_num_seqs and one.waiting >= 0 and 0 <= one.kv_usage <= 1
        now = [
            one.now,
            counts.num_drafts,
            counts.num_accepted_tokens,
            counts.generation_tokens,
            counts.prompt_tokens,
            counts.step.sum,
            counts.e2e.count,
            *counts.accepted_per_pos,
        ]
        assert all(a <= b for a, b in zip(before, now, strict=False))
        before = now
    assert one.now <= sum(cuts) + 0.5
