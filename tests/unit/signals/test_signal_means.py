"""Means for curves: in every case what the signals of the same window say."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.model.life import Setting
from monitor.model.reading import Flag
from monitor.signals.build import signals
from monitor.signals.means import Means, means
from monitor.signals.track import Pair
from tests.unit.signals.windows import NOON, life, run_of

A, B, OFF = life("a"), life("b"), replace(life("a", number=2), setting=Setting(method=None))
CASES: dict[str, list[Pair]] = {
    "no interval": [],
    "one server": run_of(A, 10),
    "two servers at one setting": run_of(A, 10) + run_of(B, 5, per_pos=(900.0, 800.0, 700.0)),
    "a restart with another setting": run_of(life("a", tokens=5), 5, ends_at=-75.0) + run_of(life("a", number=3), 5),
    "speculation off": run_of(OFF, 5, has_speculation=False),
    "off after it was on": run_of(A, 5, ends_at=-75.0) + run_of(OFF, 5, has_speculation=False),
    "no positions": run_of(A, 5, per_pos=None, accepted=1500.0),
    "no drafts": run_of(A, 5, drafts=0.0, per_pos=None, accepted=0.0),
    "drafts not counted": run_of(A, 5, drafts=None, draft_tokens=3000.0, per_pos=None, accepted=1500.0),
    "counters that contradict themselves": run_of(A, 5, flags=frozenset({Flag.IDENTITIES_BROKEN})),
    "a gap": run_of(A, 5, is_gap=True),
    "no inter-token histogram": run_of(A, 5, outputs=None),
    "neither histograms nor steps": run_of(A, 5, has_latency=False, steps=None),
    "no traffic": run_of(A, 5, generation=None),
    "older than the window": run_of(A, 5, ends_at=-3600.0),
}


@pytest.mark.parametrize("pairs", CASES.values(), ids=CASES.keys())
def test_means_are_what_the_signals_are(pairs: list[Pair]) -> None:
    at = NOON + timedelta(seconds=1)
    found = signals(pairs, scope="s", at=at, window_seconds=600.0)
    expected = Means(*(found.value(name) for name in Means._fields))
    assert [value and round(value, 12) for value in means(reversed(pairs), at, 600.0)] == [
        value and round(value, 12) for value in expected
    ]


def test_of_servers_at_several_settings_every_draft_counts_as_what_it_was() -> None:
    """A group's curve must not end where the first of its servers is changed: 10 drafts of 3 tokens, 30 of 5."""
    other = life("b", tokens=5)
    pairs = run_of(A, 1, drafts=10.0, per_pos=(9.0, 6.0, 3.0)) + run_of(
        other, 1, drafts=30.0, per_pos=(24.0, 18.0, 12.0, 6.0, 0.0)
    )
    found = means(pairs, NOON + timedelta(seconds=1), 600.0)
    assert found.acceptance_rate == pytest.approx((18 + 60) / (10 * 3 + 30 * 5))
    assert found.acceptance_length == pytest.approx(1 + (18 + 60) / 40)
    assert found.num_speculative_tokens is None
