"""Falls of acceptance: CUSUM, its references, and what is normal for a server."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from monitor.model.life import Setting
from monitor.model.record import Baseline
from monitor.model.signal import NoData, Signal, SignalSet, VectorSignal
from monitor.signals import Context, baseline_key, signals, update_baseline
from monitor.signals.baseline import is_settled
from monitor.signals.change import ACTION_LEVEL, NOTICE_LEVEL, blocks_of, cusum, drop, spread
from monitor.signals.track import Track
from tests.unit.signals.windows import NOON, life, run_of

GOOD, BAD = (700.0, 500.0, 300.0), (350.0, 150.0, 60.0)


def baseline(of=None, **changes) -> Baseline:
    of = of or life()
    values = {
        "server": of.server, "key": baseline_key(of.setting, of.engine_version), "acceptance_length": 2.5,
        "acceptance_rate": 0.5, "first_position_rate": 0.7, "num_drafts": 1e6, "updated_at": NOON, "windows": 100,
    }
    return Baseline(**{**values, **changes})


def test_cusum_by_hand():
    # (10 - 8) / 1 - 0.5 = 1.5; then 3.0; a block at 12 takes 2.5 away.
    assert cusum([8.0], 10.0, 1.0) == pytest.approx(1.5)
    assert cusum([8.0, 8.0], 10.0, 1.0) == pytest.approx(3.0)
    assert cusum([8.0, 8.0, 12.0], 10.0, 1.0) == pytest.approx(0.5)
    assert cusum([12.0] * 5, 10.0, 1.0) == 0.0


def test_detection_takes_as_long_as_published_for_this_statistic():
    """Blocks until the level 6 is passed after a fall of 2 standard deviations: 4.7 on average."""
    rng = random.Random(3)
    delays = []
    for _ in range(400):
        values: list[float] = []
        while cusum(values, 0.0, 1.0) <= NOTICE_LEVEL:
            values.append(rng.gauss(-2.0, 1.0))
        delays.append(len(values))
    assert sum(delays) / len(delays) == pytest.approx(4.7, abs=0.4)


def test_spread_is_robust_and_has_a_floor():
    assert spread([1.0, 1.0, 1.0, 50.0], 0.05) == 0.05
    assert spread([-1.0, 0.0, 1.0], 0.01) == pytest.approx(1.4826)


def test_too_few_blocks_say_nothing():
    assert drop([2.0] * 7, 2.5) is None


def entries(pairs):
    track = Track.of(pairs)
    return zip(track.ends, track.digests, strict=True)


def window(now, before, **contexts):
    pairs = [*run_of(life(), 60, ends_at=-300.0, per_pos=before), *run_of(life(), 20, per_pos=now)]
    return signals(pairs, scope="server:a", at=NOON, window_seconds=300.0, **contexts)


def test_a_cliff_passes_the_level_of_an_action_and_steady_acceptance_does_not():
    fallen = window(BAD, GOOD, contexts={life().server: Context(baseline=baseline())})
    steady = window(GOOD, GOOD, contexts={life().server: Context(baseline=baseline())})
    assert fallen.value("acceptance_length_drop") > ACTION_LEVEL
    assert fallen.value("first_position_drop") > ACTION_LEVEL
    assert steady.value("acceptance_length_drop") == 0.0


def test_without_a_baseline_the_earlier_blocks_are_normal():
    assert window(BAD, GOOD).value("acceptance_length_drop") > ACTION_LEVEL


def test_a_change_of_setting_is_no_fall():
    pairs = [
        *run_of(life(tokens=1, number=1), 40, ends_at=-300.0, per_pos=(900.0,)),
        *run_of(life(tokens=3, number=2), 20, per_pos=GOOD),
    ]
    found = signals(pairs, scope="server:a", at=NOON, window_seconds=300.0)
    assert found.value("first_position_drop") == 0.0


def test_blocks_are_at_least_as_long_as_asked():
    assert len(blocks_of(entries(run_of(life(), 20)), 30.0)) == 10


def test_baselines_are_only_shown_for_their_own_setting_and_when_settled():
    other = baseline(key=baseline_key(Setting(method="eagle3", num_speculative_tokens=5), "0.11.0"))
    young = baseline(windows=1)
    for wrong in (other, young):
        found = window(GOOD, GOOD, contexts={life().server: Context(baseline=wrong)})
        assert found.scalars["baseline_acceptance_length"].reason is NoData.NO_BASELINE
    found = window(GOOD, GOOD, contexts={life().server: Context(baseline=baseline())})
    assert found.value("baseline_acceptance_length") == 2.5


def test_length_since_start_compares_with_the_first_hours_of_the_process():
    found = window(BAD, GOOD, contexts={life().server: Context(first_hours_length=2.5)})
    assert found.value("acceptance_length_since_start") == pytest.approx((1 + 0.56) / 2.5)


def learned(length: float, drafts: float = 5000.0) -> SignalSet:
    values = {"acceptance_length": length, "acceptance_rate": (length - 1) / 3, "num_drafts": drafts}
    return SignalSet(
        scope="server:a", at=NOON, window_seconds=300.0,
        scalars={name: Signal(name, value) for name, value in values.items()},
        vectors={"acceptance_rate_at_pos": VectorSignal("acceptance_rate_at_pos", (0.7, 0.5, 0.3))},
    )


def learn(lengths, key="k"):
    found, now = None, NOON
    for length in lengths:
        now += timedelta(seconds=300)
        found = update_baseline(found, learned(length), life().server, key, now=now)
    return found


def test_the_first_windows_are_averaged():
    found = learn([2.0, 3.0, 2.5, 2.5])
    assert found.acceptance_length == pytest.approx(2.5)
    assert found.windows == 4
    assert is_settled(found)


def test_a_fault_of_an_hour_does_not_become_normal():
    found = learn([2.5] * 20 + [1.2] * 12)
    assert found.acceptance_length > 2.45


def test_a_new_normal_is_learned_within_days():
    found = learn([2.5] * 20 + [2.2] * 3 * 288)
    assert found.acceptance_length == pytest.approx(2.24, abs=0.03)


def test_little_data_teaches_nothing():
    assert update_baseline(None, learned(2.5, drafts=100.0), life().server, "k", now=NOON) is None


def test_another_key_starts_afresh():
    first = learn([2.5] * 5)
    again = update_baseline(first, learned(1.8), life().server, "other", now=NOON + timedelta(hours=1))
    assert (again.key, again.acceptance_length, again.windows) == ("other", 1.8, 1)


def test_a_clock_that_went_back_teaches_nothing():
    first = learn([2.5] * 20)
    assert update_baseline(first, learned(3.5), life().server, "k", now=NOON) == first
