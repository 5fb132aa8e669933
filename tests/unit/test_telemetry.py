"""The daemon's own metrics: what leaves the page, and that each has a name of ours."""

from __future__ import annotations

from monitor import __version__
from monitor.telemetry import Telemetry


def lines(telemetry: Telemetry) -> list[str]:
    return [line for line in telemetry.page().decode().splitlines() if not line.startswith("#")]


def busy() -> Telemetry:
    """Everything that can be told, of two servers and groups."""
    told = Telemetry()
    for server, group in (("a", "g"), ("b", "h")):
        told.scraped(server, "ok", 0.01)
        told.scraped(server, "scrape_error", 0.01)
        told.server_up(server, True, 1000.0)
        told.intervals_stored(server, 2)
        told.scrape_late(server, 3.0)
        told.scrape_missed(server, 2)
        told.scrape_overlapping(server)
        for signal in told.signal_names:
            told.signal(signal, server, group, 0.5)
        told.decision(group, "raise", "predicted_gain")
        told.change_ended(group, "promoted")
    told.cycle("ok", 0.1)
    told.job_missed("report")
    told.job_failed("report")
    told.unexpected_error("scrape")
    told.alerts_firing({"page": 1, "ticket": 0, "info": 0})
    told.paused({"*"})
    told.notice("slack", "sent")
    told.outbox_pending(3)
    return told


def test_every_name_has_our_prefix_or_is_of_the_process() -> None:
    assert all(line.startswith(("acceptd_", "process_")) for line in lines(busy()))
    assert f'acceptd_build_info{{version="{__version__}"}} 1.0' in lines(busy())


def test_a_signal_without_a_value_leaves_the_page() -> None:
    told = Telemetry()
    told.signal("acceptance_rate", "a", "g", 0.7)
    assert any(line.endswith(" 0.7") for line in lines(told))
    told.signal("acceptance_rate", "a", "g", None)
    told.signal("acceptance_rate", "a", "g", None)
    assert not any('server="a"' in line for line in lines(told))


def test_a_server_that_is_down_keeps_when_it_was_last_read() -> None:
    told = Telemetry()
    told.server_up("a", True, 1000.0)
    told.server_up("a", False, 2000.0)
    assert 'acceptd_server_up{server="a"} 0.0' in lines(told)
    assert any(line.endswith(" 1000.0") for line in lines(told))


def test_servers_and_groups_that_are_no_longer_configured_leave_the_page_and_the_others_stay() -> None:
    told = busy()
    told.watching({"a", "b"}, {"g", "h"})
    before = [line for line in lines(told) if 'server="a"' in line or 'group="g"' in line]
    told.watching({"a"}, {"g"})
    after = lines(told)
    assert not any('server="b"' in line or 'group="h"' in line for line in after)
    assert [line for line in after if 'server="a"' in line or 'group="g"' in line] == before
    assert any(line.startswith("acceptd_paused") for line in after)
    told.watching(set(), set())
    told.scraped("a", "ok", 0.01)
    assert 'acceptd_scrapes_total{server="a",verdict="ok"} 1.0' in lines(told)


def test_positions_that_a_server_no_longer_has_leave_the_page() -> None:
    told = Telemetry()
    told.positions("a", "g", [0.9, 0.7, 0.5])
    told.positions("a", "g", [0.8, None])
    shown = [line for line in lines(told) if line.startswith("acceptd_acceptance_rate_at_position_ratio")]
    assert shown == ['acceptd_acceptance_rate_at_position_ratio{group="g",position="1",server="a"} 0.8']


def test_objectives_of_what_is_gone_leave_the_page_and_those_of_a_model_stay() -> None:
    told = Telemetry()
    for scope in ({"group": "g"}, {"group": "h"}, {"server": "b", "group": "g"}, {"model": "m"}):
        told.slo_events("uptime", scope, 9.0, 10.0)
        told.slo_known("uptime", scope, 60.0)
    told.watching({"a"}, {"g"})
    for name in ("acceptd_slo_valid_events_total", "acceptd_slo_known_seconds"):
        kept = [line for line in lines(told) if line.startswith(f"{name}{{")]
        assert len(kept) == 2 and any('model="m"' in line for line in kept)
        assert not any('group="h"' in line or 'server="b"' in line for line in kept)


def test_events_of_an_objective_add_up_in_their_scope() -> None:
    told = Telemetry()
    for _ in range(2):
        told.slo_events("uptime", {"group": "g"}, 9.0, 10.0)
    assert any(line.startswith("acceptd_slo_good_events_total{") and line.endswith(" 18.0") for line in lines(told))
    assert any(line.startswith("acceptd_slo_valid_events_total{") and line.endswith(" 20.0") for line in lines(told))


def test_a_pause_that_is_lifted_leaves_the_page() -> None:
    told = Telemetry()
    told.paused({"*", "group:g"})
    assert sum(line.startswith("acceptd_paused") for line in lines(told)) == 2
    told.paused(set())
    assert not any(line.startswith("acceptd_paused") for line in lines(told))


def test_what_may_be_alerted_on_is_counted_from_0_on() -> None:
    """Prometheus takes the first value that it sees of a series for its beginning: `increase` would miss the first."""
    told = Telemetry()
    told.loop_exists("evaluate")
    told.job_exists("report")
    told.watching({"a"}, {"g"})
    shown = lines(told)
    for series in (
        'acceptd_cycles_total{outcome="ok"}', 'acceptd_cycles_total{outcome="failed"}',
        'acceptd_unexpected_errors_total{where="evaluate"}', 'acceptd_unexpected_errors_total{where="scrape"}',
        'acceptd_unexpected_errors_total{where="thread"}', 'acceptd_jobs_failed_total{job="report"}',
        'acceptd_jobs_missed_total{job="report"}', 'acceptd_scrapes_late_total{server="a"}',
        'acceptd_changes_total{group="g",outcome="promoted"}', 'acceptd_changes_total{group="g",outcome="rolled_back"}',
        'acceptd_changes_total{group="g",outcome="abandoned"}',
    ):
        assert f"{series} 0.0" in shown
    told.change_ended("g", "promoted")
    told.watching({"a"}, {"g"})
    assert 'acceptd_changes_total{group="g",outcome="promoted"} 1.0' in lines(told)


def test_a_counter_has_no_gauge_of_its_birth_beside_it() -> None:
    assert not [line for line in lines(busy()) if "_created" in line]


def test_what_the_daemon_itself_costs_is_on_the_page() -> None:
    names = {line.partition(" ")[0] for line in lines(Telemetry())}
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"} <= names
