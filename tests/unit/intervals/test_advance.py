"""Lives, heads and intervals of one server, page by page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.dialects import Dialects
from monitor.intervals.server import ABSENT_SECONDS, advance, settle
from monitor.intervals.track import Context, EventKind, Step, Track, resume
from monitor.model.interval import Interval
from monitor.model.life import DIFFUSION, Said, Setting, SettingSource, StartEvidence
from monitor.model.reading import Flag, Reading, State, Verdict
from tests.fakes.pages import V1, v1_page
from tests.fakes.readings import SERVER, Counted, engine_reading, moment, reading

BOOT = "boot-1"
OLD = Counted(steps=1000, requests=50, started=-600)
LATER = OLD.after(40, 2)


def follow(*readings: Reading, track: Track | None = None, **context: object) -> list[Step]:
    track = track or Track(server=SERVER)
    steps = []
    for one in readings:
        step = advance(track, one, boot_id=BOOT, context=Context(scrape_seconds=15.0, **context))  # type: ignore[arg-type]
        track = step.track
        steps.append(step)
    return steps


def only(step: Step) -> Interval:
    [interval] = step.intervals
    return interval


def page(at: float, counted: Counted, **more: object) -> Reading:
    return reading(at, engine_reading(counted), **more)  # type: ignore[arg-type]


def test_a_life_first_met_begins_at_its_first_head() -> None:
    first, second = follow(page(0, OLD), page(15, LATER))
    [life] = first.lives
    assert life.evidence is StartEvidence.FIRST_SEEN
    assert not life.counts_from_zero
    assert life.setting.num_speculative_tokens == 3
    assert life.sources == {"num_speculative_tokens": SettingSource.PAGE}
    assert not first.intervals
    assert [head.life for head in first.heads] == [life.id]
    interval = only(second)
    assert interval.life == life.id
    assert not second.lives
    assert (interval.start, interval.end, interval.elapsed_seconds) == (moment(0), moment(15), 15)
    assert interval.speculation is not None
    assert interval.traffic is not None
    assert interval.speculation.num_drafts == 40
    assert interval.traffic.generation_tokens == LATER.generation_tokens - OLD.generation_tokens
    assert interval.speculation_seconds == interval.traffic_seconds == interval.latency_seconds == 15
    assert second.heads[0].counts == LATER.counts()


def test_a_server_that_starts_while_we_watch_counts_from_zero() -> None:
    down = reading(0, verdict=Verdict.SCRAPE_ERROR)
    [_, step] = follow(down, page(60, Counted(steps=80, requests=4, started=30)))
    assert step.lives[0].counts_from_zero
    interval = only(step)
    assert interval.speculation is not None
    assert interval.speculation.num_drafts == 80
    assert interval.start == moment(0)
    assert interval.speculation_seconds == 30
    assert not interval.partial


def test_an_engine_that_appears_in_a_known_process_counts_from_zero() -> None:
    before = reading(0, verdict=Verdict.NO_SAMPLES_YET, process_start=-500)
    fresh = Counted(steps=7, requests=1, started=None)
    [_, step] = follow(before, page(15, fresh, process_start=-500))
    assert only(step).speculation == fresh.counts().speculation
    [_, step] = follow(before, page(15, fresh, process_start=-900))
    assert not step.intervals


@pytest.mark.parametrize("higher", [False, True], ids=["lower counters", "higher counters"])
def test_new_start_times_end_a_life(higher: bool) -> None:
    new = Counted(steps=5000 if higher else 20, requests=3, started=5)
    steps = follow(page(0, OLD, process_start=-600), page(15, new, process_start=4))
    assert steps[1].verdict is Verdict.RESET_DETECTED
    ended, life = steps[1].lives
    assert ended.ended == moment(15)
    assert life.evidence is StartEvidence.PROCESS_START
    assert life.counts_from_zero
    interval = only(steps[1])
    assert interval.partial
    assert interval.life == life.id
    assert interval.speculation == new.counts().speculation
    assert interval.speculation_seconds == 10


def test_the_creation_time_alone_ends_a_life() -> None:
    steps = follow(page(0, OLD, process_start=-600), page(15, Counted(steps=5000, started=5), process_start=-600))
    assert steps[1].lives[1].evidence is StartEvidence.CREATED
    assert only(steps[1]).partial


def test_a_process_older_than_our_last_page_does_not_count_from_zero() -> None:
    new = Counted(steps=5000, started=-300)
    steps = follow(page(0, OLD), page(15, new))
    assert steps[1].verdict is Verdict.RESET_DETECTED
    assert not steps[1].lives[1].counts_from_zero
    assert not steps[1].intervals
    assert only(follow(page(30, Counted(steps=5040, started=-300)), track=steps[1].track)[0]).speculation_seconds == 15


def test_a_start_time_that_goes_back_is_another_process() -> None:
    steps = follow(page(0, OLD), page(15, Counted(steps=1100, started=-9000)))
    assert steps[1].verdict is Verdict.INCONSISTENT_ENDPOINT
    assert not steps[1].intervals
    assert not steps[1].lives


WITHOUT = replace(OLD, started=None)


def test_falling_counters_wait_one_page_and_are_a_restart() -> None:
    new = Counted(steps=20, requests=1, started=None)
    steps = follow(page(0, WITHOUT), page(15, new), page(30, new.after(40)))
    assert steps[1].verdict is Verdict.RESET_DETECTED
    assert not steps[1].intervals
    assert not steps[1].heads
    assert [event.kind for event in steps[1].events] == [EventKind.HELD]
    assert steps[2].lives[1].evidence is StartEvidence.COUNTERS_FELL
    interval = only(steps[2])
    assert (interval.start, interval.end) == (moment(0), moment(30))
    assert interval.speculation == new.after(40).counts().speculation
    assert interval.partial
    after = follow(page(45, new.after(80)), track=steps[2].track)[0]
    assert after.verdict is Verdict.OK
    assert only(after).elapsed_seconds == 15


def test_falling_counters_with_no_page_to_follow_are_settled_as_a_restart() -> None:
    new = Counted(steps=20, requests=1, started=None)
    track = follow(page(0, WITHOUT), page(15, new))[1].track
    settled, intervals = settle(track)
    assert intervals[0].speculation == new.counts().speculation
    assert settled.engines["m", "0"].pending is None
    assert settle(settled)[1] == ()


def test_counters_that_fall_and_return_are_of_several_processes() -> None:
    other = Counted(steps=400, requests=20, started=None)
    steps = follow(
        page(0, WITHOUT),
        page(15, other),
        page(30, WITHOUT.after(20)),
        page(45, other.after(20)),
        *(page(60 + 15 * n, WITHOUT.after(40 + n)) for n in range(12)),
    )
    assert [step.verdict for step in steps[2:5]] == [Verdict.INCONSISTENT_ENDPOINT] * 3
    assert not any(step.intervals for step in steps[:14])
    assert not any(step.lives for step in steps[1:])
    assert steps[14].verdict is Verdict.OK
    assert steps[15].intervals


def test_another_worker_twice_in_a_row_is_no_restart() -> None:
    other = Counted(steps=40_000, requests=900, started=None)
    busy = replace(WITHOUT, steps=90_000)
    steps = follow(page(0, busy), page(15, busy.after(50)), page(30, other), page(45, other.after(50)))
    assert steps[3].verdict is Verdict.INCONSISTENT_ENDPOINT
    assert (
        sum(
            interval.speculation.num_drafts or 0
            for step in steps
            for interval in step.intervals
            if interval.speculation is not None
        )
        == 50
    )


def test_the_first_worker_back_after_what_looked_like_a_restart_is_no_burst() -> None:
    other = Counted(steps=20, requests=1, started=None)
    steps = follow(page(0, WITHOUT), page(15, other), page(30, other.after(5)), page(45, WITHOUT.after(10)))
    assert steps[2].lives
    assert steps[3].verdict is Verdict.INCONSISTENT_ENDPOINT
    assert not steps[3].intervals


def test_our_own_restart_segments_even_where_counters_go_on() -> None:
    [step] = follow(
        page(15, replace(LATER, started=None, k=5)), track=follow(page(0, WITHOUT))[0].track, restarted=True
    )
    assert step.lives[1].evidence is StartEvidence.OUR_RESTART
    assert step.lives[1].setting.num_speculative_tokens == 5
    assert not step.intervals


def test_our_own_restart_is_not_seen_on_the_old_process_page() -> None:
    track = follow(page(0, OLD, process_start=-600))[0].track
    [step] = follow(page(15, LATER, process_start=-600), track=track, restarted=True)
    assert not step.lives
    assert only(step).speculation_seconds == 15


def test_another_number_of_tokens_without_start_times_is_a_new_life() -> None:
    steps = follow(page(0, WITHOUT), page(15, replace(LATER, started=None, k=2)))
    assert steps[1].lives[1].evidence is StartEvidence.SETTING_CHANGED
    assert not steps[1].intervals


def test_a_page_that_contradicts_itself_shows_no_other_setting() -> None:
    broken = page(15, replace(LATER, started=None, k=2), flags=frozenset({Flag.IDENTITIES_BROKEN}))
    steps = follow(page(0, WITHOUT), broken, page(30, replace(LATER.after(10), started=None)))
    assert [len(step.lives) for step in steps] == [1, 0, 0]


def test_counters_missing_on_one_page_are_counted_over_both_and_make_no_spike() -> None:
    whole = engine_reading(LATER)
    for lost in (
        replace(whole.counts, speculation=None),
        replace(whole.counts, traffic=None),
    ):
        steps = follow(page(0, OLD), reading(15, replace(whole, counts=lost)), page(30, LATER.after(40)))
        assert not steps[1].intervals
        assert not steps[1].heads
        interval = only(steps[2])
        assert (interval.start, interval.elapsed_seconds, interval.speculation_seconds) == (moment(0), 30, 30)
        assert interval.speculation is not None
        assert interval.speculation.num_drafts == 80


def test_counters_that_stay_away_are_waited_for_once() -> None:
    both = [engine_reading(OLD.after(steps)) for steps in (10, 20)]
    gone = [replace(one, counts=replace(one.counts, speculation=None)) for one in both]
    first, waited, went_on = follow(page(0, OLD), reading(15, gone[0]), reading(30, gone[1]))
    assert not waited.intervals
    assert only(went_on).speculation is None
    assert only(went_on).elapsed_seconds == 30
    settled, [interval] = settle(follow(page(0, OLD), reading(15, gone[0]))[-1].track)
    assert interval.traffic is not None
    assert interval.traffic.generation_tokens == OLD.after(10).generation_tokens - OLD.generation_tokens
    assert settled.engines["m", "0"].incomplete is None
    assert first.lives


def test_an_engine_that_a_page_of_its_process_had_lost_does_not_count_a_whole_life() -> None:
    cut = reading(0, verdict=Verdict.NO_ENGINE_METRICS, process_start=-900)
    assert not follow(cut, page(15, OLD, process_start=-900))[1].intervals  # created long before the cut page
    old = replace(OLD.after(50_000), started=None)
    assert not follow(cut, page(15, old, process_start=-900))[1].intervals
    young = Counted(steps=50, requests=1, started=None)
    assert follow(cut, page(15, young, process_start=-900))[1].intervals


def test_positions_that_vanish_in_one_life_are_a_bad_page() -> None:
    steps = follow(page(0, OLD), page(15, replace(LATER, k=2)))
    assert not steps[1].lives
    assert only(steps[1]).speculation is None or Flag.IDENTITIES_BROKEN in only(steps[1]).flags


def test_a_small_fall_is_a_glitch_and_only_its_number_is_lost() -> None:
    lower = engine_reading(LATER)
    traffic = lower.counts.traffic
    assert traffic is not None
    lower = replace(
        lower, counts=replace(lower.counts, traffic=replace(traffic, generation_tokens=OLD.generation_tokens - 3))
    )
    steps = follow(page(0, OLD), reading(15, lower), page(30, LATER.after(10)))
    assert steps[1].verdict is Verdict.COUNTER_GLITCH
    interval = only(steps[1])
    assert interval.traffic is not None
    assert interval.traffic.generation_tokens is None
    assert interval.traffic.prompt_tokens == 20
    assert interval.speculation is not None
    assert steps[2].verdict is Verdict.OK


def test_unknown_settings_that_become_known_start_no_life() -> None:
    track = follow(page(0, OLD))[0].track
    said = (Said(source=SettingSource.COMMAND_LINE, setting=Setting(method="ngram", num_speculative_tokens=7)),)
    [step] = follow(page(15, LATER), track=track, said=said, engine_version="0.32.0")
    [life] = step.lives
    assert life.id == track.engines["m", "0"].life.id
    assert life.setting == Setting(method="ngram", num_speculative_tokens=3)
    assert life.sources == {"method": SettingSource.COMMAND_LINE, "num_speculative_tokens": SettingSource.PAGE}
    assert life.setting_notes == ("num_speculative_tokens: page says 3, command line says 7",)
    assert [event.text for event in step.events if event.kind is EventKind.NOTED] == list(life.setting_notes)
    assert life.engine_version == "0.32.0"
    assert only(step).life == life.id
    assert not follow(page(30, LATER.after(5)), track=step.track, said=said)[0].lives


def test_a_page_without_speculation_does_not_overrule_a_command_line_that_asks_for_it() -> None:
    off = engine_reading(OLD)
    off = replace(off, num_speculative_tokens=None, counts=replace(off.counts, speculation=None))
    asked = Setting(method="ngram", num_speculative_tokens=7)
    for setting, expected in ((asked, 7), (Setting(), 0)):
        said = (Said(source=SettingSource.COMMAND_LINE, setting=setting),)
        [step] = follow(reading(0, off, verdict=Verdict.NOT_SPEC_DECODE, process_start=-600), said=said)
        life = step.lives[0]
        assert life.setting.num_speculative_tokens == expected
        assert life.setting_notes == (
            ("num_speculative_tokens: page says 0 (off), command line says 7",) if expected else ()
        )


def test_resumed_from_the_store_the_difference_is_the_same() -> None:
    steps = follow(page(0, OLD), page(15, LATER))
    lives = {life.id: life for step in steps for life in step.lives}
    heads = {head.life: head for step in steps for head in step.heads}
    track = resume(SERVER, lives.values(), heads)
    [step] = follow(page(75, LATER.after(100)), track=track)
    interval = only(step)
    assert interval.speculation is not None
    assert interval.speculation.num_drafts == 100
    assert interval.is_gap
    assert interval.gauges_seconds == 0


def test_after_a_reboot_the_wall_clock_counts() -> None:
    track = follow(page(0, OLD, monotonic=9000.0))[0].track
    step = advance(track, page(30, LATER, monotonic=12.0), boot_id="boot-2")
    assert only(step).elapsed_seconds == 30


def test_a_wall_clock_set_back_does_not_stretch_an_interval() -> None:
    track = follow(page(100, OLD, monotonic=100.0))[0].track
    step = advance(track, page(25, LATER, monotonic=115.0), boot_id=BOOT)
    interval = only(step)
    assert interval.elapsed_seconds == 15
    assert (interval.end - interval.start).total_seconds() == 15


def test_the_same_moment_twice_gives_no_interval_and_keeps_the_head() -> None:
    steps = follow(page(0, OLD), page(0, LATER), page(15, LATER))
    assert not steps[1].intervals
    assert only(steps[2]).speculation_seconds == 15


def test_an_engine_that_is_away_for_a_page_keeps_its_head() -> None:
    two = [engine_reading(OLD), engine_reading(OLD, engine="1")]
    later = [engine_reading(LATER), engine_reading(LATER, engine="1")]
    steps = follow(reading(0, *two), reading(15, later[0]), reading(30, *later))
    assert len(steps[1].intervals) == 1
    assert {interval.elapsed_seconds for interval in steps[2].intervals} == {15, 30}


def test_one_engine_of_two_restarts() -> None:
    new = Counted(steps=10, started=5)
    steps = follow(
        reading(0, engine_reading(OLD), engine_reading(OLD, engine="1"), process_start=-600),
        reading(15, engine_reading(LATER), engine_reading(new, engine="1"), process_start=-600),
    )
    assert steps[1].verdict is Verdict.RESET_DETECTED
    assert [interval.partial for interval in steps[1].intervals] == [False, True]
    assert len(steps[1].lives) == 2


def test_engines_of_an_older_process_end_when_a_restart_has_fewer() -> None:
    steps = follow(
        reading(0, engine_reading(OLD), engine_reading(OLD, engine="1"), process_start=-600),
        reading(15, engine_reading(Counted(steps=10, started=5)), process_start=4),
    )
    assert {life.engine for life in steps[1].lives if life.ended} == {"0", "1"}
    assert set(steps[1].track.engines) == {("m", "0")}


def test_a_failed_scrape_changes_nothing() -> None:
    steps = follow(page(0, OLD), reading(15, verdict=Verdict.SCRAPE_ERROR), page(30, LATER))
    assert steps[1].verdict is Verdict.SCRAPE_ERROR
    assert not steps[1].heads
    assert only(steps[2]).elapsed_seconds == 30
    assert not only(steps[2]).is_gap


def test_gauges_are_means_and_maxima_of_both_ends() -> None:
    steps = follow(reading(0, engine_reading(OLD, running=2)), reading(15, engine_reading(LATER, running=6, waiting=1)))
    gauges = only(steps[1]).gauges
    assert (gauges.running_mean, gauges.running_max) == (4, 6)
    assert (gauges.waiting_mean, gauges.waiting_max) == (0.5, 1)


def test_flags_of_the_page_pass_to_its_interval_where_they_concern_it() -> None:
    flags = frozenset({Flag.DUPLICATE_SERIES, Flag.V0_COUNTERS_UNRELIABLE})
    steps = follow(page(0, OLD), page(15, LATER, flags=flags))
    assert only(steps[1]).flags == {Flag.DUPLICATE_SERIES}
    assert steps[1].flags == flags


@pytest.mark.parametrize(
    ("second", "verdict", "state"),
    [
        (reading(60, engine_reading(OLD, running=0)), Verdict.OK, State.IDLE),
        (reading(60, engine_reading(OLD, running=4)), Verdict.NEEDS_PROBE, None),
        (reading(5, engine_reading(OLD, running=4)), Verdict.OK, None),
        (reading(60, engine_reading(OLD, running=4), dialect="llamacpp"), Verdict.OK, State.BUSY_COUNTERS_DEFERRED),
        (reading(60, engine_reading(LATER, running=4)), Verdict.OK, None),
        (reading(60, engine_reading(OLD, running=0), state=State.SLEEPING), Verdict.OK, State.SLEEPING),
    ],
    ids=["idle", "maybe stuck", "too short", "deferred", "moving", "sleeping"],
)
def test_standing_still(second: Reading, verdict: Verdict, state: State | None) -> None:
    steps = follow(reading(0, engine_reading(OLD, running=4), dialect=second.dialect), second)
    assert (steps[1].verdict, steps[1].state) == (verdict, state)


@pytest.mark.parametrize("wall_is_known", [True, False])
def test_a_restart_under_another_model_name_is_a_restart(wall_is_known: bool) -> None:
    other = Counted(steps=30, started=5)
    steps = follow(
        reading(0, engine_reading(OLD), process_start=-600),
        reading(15, engine_reading(other, model="n"), process_start=4),
        wall_is_known=wall_is_known,
    )
    assert steps[1].verdict is Verdict.RESET_DETECTED
    assert "m engine 0" in steps[1].reason
    assert {(life.model, life.ended is None) for life in steps[1].lives} == {("m", False), ("n", True)}
    assert only(steps[1]).speculation == other.counts().speculation
    assert only(steps[1]).partial


def deferred(at: float, counted: Counted, mark: str | None) -> Reading:
    """A page of a server that says nothing of its start but in a header."""
    return replace(page(at, replace(counted, started=None), dialect="llamacpp"), start_mark=mark)


def test_another_start_mark_is_a_restart_even_where_no_counter_fell() -> None:
    young = Counted(steps=10)
    first, same, new, later = follow(
        deferred(0, young, "1"), deferred(15, young, "1"), deferred(30, young.after(500), "2"),
        deferred(45, young.after(600), "2"),
    )  # fmt: skip
    assert same.verdict is Verdict.OK
    assert new.verdict is Verdict.RESET_DETECTED
    ended, began = new.lives
    assert (ended.id, began.evidence) == (first.lives[0].id, StartEvidence.PROCESS_START)
    assert began.start_mark == "2"
    assert not began.counts_from_zero and not new.intervals
    assert only(later).life == began.id


def test_counters_that_fell_with_another_start_mark_count_from_nothing_at_once() -> None:
    step = follow(deferred(0, OLD, "1"), deferred(15, Counted(steps=40), "2"))[1]
    interval = only(step)
    assert interval.speculation is not None
    assert (interval.speculation.num_drafts, interval.partial) == (40, True)


def test_workers_that_answer_in_turn_under_their_own_marks_are_no_storm_of_restarts() -> None:
    one, other = Counted(steps=1000), Counted(steps=5000)
    pages = [deferred(15.0 * turn, (one, other)[turn % 2].after(turn), "12"[turn % 2]) for turn in range(20)]
    steps = follow(*pages)
    assert [step.verdict for step in steps[1:3]] == [Verdict.RESET_DETECTED, Verdict.INCONSISTENT_ENDPOINT]
    assert {step.verdict for step in steps[2:]} == {Verdict.INCONSISTENT_ENDPOINT}
    assert not any(step.intervals for step in steps[1:])


def test_an_endpoint_that_settles_on_another_process_is_believed_again() -> None:
    one, other = Counted(steps=1000, started=-900), Counted(steps=5000, started=-600)
    turns = [page(0, other, process_start=-600), page(15, one, process_start=-900)]
    turns += [page(30.0 + 15 * turn, one.after(10 * turn), process_start=-900) for turn in range(20)]
    steps = follow(*turns)
    assert steps[1].verdict is Verdict.INCONSISTENT_ENDPOINT
    assert steps[10].verdict is Verdict.INCONSISTENT_ENDPOINT
    assert [step.verdict for step in steps[-5:]] == [Verdict.OK] * 5
    assert only(steps[-1]).speculation is not None
    [life] = [track.life for track in steps[-1].track.engines.values()]
    assert life.process_start == moment(-900).timestamp()


@pytest.mark.parametrize("evidence", ["page", "command line"])
def test_a_draft_takes_off_back(evidence: str) -> None:
    silent = replace(engine_reading(Counted(steps=0, started=None)), num_speculative_tokens=None)
    busy = replace(engine_reading(Counted(steps=40, started=None)), num_speculative_tokens=None)
    off = Said(source=SettingSource.COMMAND_LINE, setting=Setting(num_speculative_tokens=0))
    said = (off,) if evidence == "command line" else ()
    first, second = follow(
        reading(0, silent, verdict=Verdict.NOT_SPEC_DECODE, dialect="llamacpp"),
        reading(15, busy, dialect="llamacpp"),
        said=said,
    )
    assert first.lives[0].setting.is_off
    [life] = second.lives
    assert life.setting.num_speculative_tokens is None
    assert "num_speculative_tokens" not in life.sources
    assert life.setting_notes == (
        ("num_speculative_tokens: command line says 0 (off), but the page counts drafts",) if said else ()
    )


def test_a_number_that_moves_on_sglangs_page_tells_its_adaptive_mode() -> None:
    def page_of(at: float, tokens: int, steps: int) -> Reading:
        engine = replace(engine_reading(Counted(steps=steps)), num_speculative_tokens=tokens)
        return reading(at, engine, dialect="sglang")

    said = (Said(source=SettingSource.COMMAND_LINE, setting=Setting(method="eagle", num_speculative_tokens=3)),)
    first, second, third = follow(page_of(0, 3, 10), page_of(15, 1, 20), page_of(30, 5, 30), said=said)
    assert first.lives[0].adapts is None
    [life] = second.lives
    assert life.adapts == "its page shows 1 tokens where it showed 3"
    assert life.setting == Setting(method="eagle", num_speculative_tokens=3)
    assert life.setting_notes == ()
    assert not third.lives


def test_a_diffusion_model_is_neither_off_nor_speculating() -> None:
    labels = 'engine="0",model_name="m"'
    body = v1_page(V1(at=None, generation=5000, model="m")) + (
        f"# TYPE vllm:diffusion_num_denoising_steps_total counter\n"
        f"vllm:diffusion_num_denoising_steps_total{{{labels}}} 900.0\n"
    ).encode()
    seen = Dialects().reader(SERVER).read(body, scraped_at=moment(0), monotonic=0.0)
    assert (seen.verdict, seen.reason) == (
        Verdict.NOT_SPEC_DECODE, "a diffusion language model: its steps denoise, nothing is drafted",
    )  # fmt: skip
    [life] = follow(seen)[0].lives
    assert life.setting == Setting(method=DIFFUSION)
    assert not life.setting.is_off


def crowd(at: float, names: range) -> Reading:
    return reading(at, *(engine_reading(Counted(steps=10), engine=str(name)) for name in names))


def test_labels_that_change_with_every_page_are_no_endless_row_of_lives() -> None:
    first, second, third, late = follow(
        crowd(0, range(600)), crowd(15, range(600, 1200)), crowd(30, range(1200, 1800)),
        crowd(ABSENT_SECONDS + 60, range(1800, 2400)),
    )  # fmt: skip
    assert len(first.lives) == 600
    for step in (second, third):
        assert step.verdict is Verdict.INCONSISTENT_ENDPOINT
        assert step.reason.startswith("600 engines that were not there before beside 600 known ones")
        assert not step.lives and not step.intervals and not step.heads
    assert len(late.lives) == 600
    assert all(life.ended is not None for life in late.lives)
    assert not late.track.engines
    again = follow(crowd(ABSENT_SECONDS + 75, range(1800, 2400)), track=late.track)[0]
    assert len(again.track.engines) == 600


def test_a_replica_that_has_been_away_for_long_is_ended_and_the_others_go_on() -> None:
    both = (engine_reading(OLD, engine="a"), engine_reading(OLD, engine="b"))
    steps = follow(
        reading(0, *both),
        reading(15, engine_reading(LATER, engine="a")),
        reading(ABSENT_SECONDS + 30, engine_reading(LATER.after(9), engine="a")),
    )
    assert not steps[1].lives
    [ended] = steps[2].lives
    assert (ended.engine, ended.ended) == ("b", moment(ABSENT_SECONDS + 30))
    assert list(steps[2].track.engines) == [("m", "a")]
    assert steps[2].verdict is Verdict.OK
