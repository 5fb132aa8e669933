"""Schedules by batch size: their shape, and every reason not to propose one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.signals.track import Track
from monitor.tuning import CostRow, Fact, Limits, Row, TuneInput
from monitor.tuning.observe import FINE_BINS, load_of
from monitor.tuning.schedule import Server, propose_schedule
from tests.unit.signals.windows import NOON, interval, life

SERVER = Server(max_num_seqs=256, takes_schedule=True)


def seconds(tokens: int, batch: float) -> float:
    return 0.006 * (1 + 0.15 + 0.1 * tokens + 0.004 * batch * (tokens + 1))


def given(**changes) -> TuneInput:
    survival = (0.80, 0.66, 0.54, 0.44, 0.36)
    values = {
        "method": "eagle3", "num_speculative_tokens": 5, "limits": Limits(maximum=5),
        "observed": {5: Row(survival=survival, length=1 + sum(survival), num_drafts=40_000.0, finished_requests=600.0,
                            step_seconds=seconds(5, 8), batch=8.0)},
        "costs": tuple(CostRow(num_speculative_tokens=k, batch=b, step_seconds=seconds(k, b))
                       for k in (1, 3, 5) for b in (1.0, 16.0, 128.0, 256.0)),
        "batches": ((2.0, 0.5), (200.0, 0.5)),
    }
    return TuneInput(**{**values, **changes})


def test_a_schedule_covers_every_batch_and_falls_with_it():
    found = propose_schedule(given(), SERVER, ())
    assert len(found.triples) >= 2
    assert found.triples[0][0] == 1
    assert found.triples[-1][1] == 256
    for (_, last, more), (first, _, fewer) in zip(found.triples, found.triples[1:], strict=False):
        assert first == last + 1
        assert fewer < more
    for first, last, tokens in found.triples[:-1]:
        assert (last + 1) / first >= 2
        assert tokens >= 1
    assert found.gain > 0.02


def test_a_boundary_gives_way_to_batches_that_dwell_there():
    (_, last, _), _ = propose_schedule(given(), SERVER, ()).triples
    load = day_of({2.0: 0.4, float(last): 0.2, 200.0: 0.4})
    crowded = propose_schedule(given(), SERVER, load).triples
    assert [(tokens, batch) for batch, _, tokens in crowded] == [(5, 1), (3, crowded[0][1] + 1)]
    assert last / 1.5 < crowded[0][1] < last / 1.3
    assert crowded[-1][1] == 256


def test_a_boundary_between_batches_that_dwell_on_both_sides_of_it_stays():
    """Both in one doubling, whose mean would be the boundary itself."""
    plain = propose_schedule(given(), SERVER, ()).triples
    last = plain[0][1]
    assert propose_schedule(given(), SERVER, day_of({last / 1.35: 0.5, last * 1.35: 0.5})).triples == plain


def test_a_boundary_stays_where_a_move_would_leave_too_narrow_a_segment():
    """Upwards the last segment would be narrower than a doubling, and below batches dwell even longer."""
    plain = propose_schedule(given(), SERVER, ()).triples
    last = plain[0][1]
    both = day_of({2.0: 0.45, last / 1.41: 0.06, float(last): 0.04, 200.0: 0.45})
    assert propose_schedule(given(), SERVER, both).triples == plain


def day_of(shares):
    """The load of a day whose tokens were served at these batches, as the tuner takes it from what was seen."""
    of = life()
    seen = [interval(of, -15.0 * number, steps=500.0, outputs=500.0 * batch, generation=100_000.0 * share)
            for number, (batch, share) in enumerate(shares.items())]  # fmt: skip
    return load_of([Track.of((of, one) for one in reversed(seen))], NOON - timedelta(days=1), FINE_BINS)


@pytest.mark.parametrize(
    ("changes", "server", "why"),
    [
        ({}, replace(SERVER, takes_schedule=False), "takes no num_speculative_tokens_per_batch_size"),
        ({}, replace(SERVER, data_parallel_size=2), "data parallelism"),
        ({"facts": frozenset({Fact.STUCK})}, SERVER, "engine_stuck"),
        ({"batches": ()}, SERVER, "load of the day"),
        ({"costs": ()}, SERVER, "not known well enough"),
        ({"batches": ((2.0, 1.0),)}, SERVER, "over the best single setting at the load seen"),
        ({"limits": Limits(minimum=1, maximum=1)}, SERVER, "at every batch size"),
    ],
)
def test_why_no_schedule_is_proposed(changes, server, why):
    found = propose_schedule(given(**changes), server, ())
    assert found.triples == ()
    assert why in found.sentence


def test_a_schedule_of_lookups_counts_the_steps_without_a_draft():
    """One step in five has a draft: what two tokens more bring and what they cost are both a fifth."""
    rare = given(method="ngram", observed={5: replace(given().observed[5], coverage=0.2)})
    found = propose_schedule(rare, SERVER, ())
    assert found.sentence == "3 tokens are best, or as good as best, at every batch size."
    assert len(propose_schedule(given(method="ngram"), SERVER, ()).triples) == 2


def test_off_has_no_schedule():
    off = TuneInput(method="eagle3", num_speculative_tokens=0, batches=((1.0, 1.0),),
                    observed={0: Row(length=1.0, finished_requests=600.0, step_seconds=0.006)})
    assert "off" in propose_schedule(off, SERVER, ()).sentence


def test_one_sequence_at_a_time_has_one_segment():
    assert propose_schedule(given(), replace(SERVER, max_num_seqs=1), ()).triples == ()
