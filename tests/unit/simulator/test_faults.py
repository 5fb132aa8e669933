from __future__ import annotations

import pytest

from monitor.errors import ConfigError
from monitor.simulator.faults import TAKES, Fault, FaultKind, Faults, make_fault, parse_fault


def test_every_kind_says_what_it_takes() -> None:
    assert set(TAKES) == set(FaultKind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cliff", Fault(FaultKind.CLIFF, "0.02")),
        ("cliff=0@40", Fault(FaultKind.CLIFF, "0", 40.0)),
        ("decay=3600@1.5s", Fault(FaultKind.DECAY, "3600", 1.5)),
        ("worse_k=4:1.6", Fault(FaultKind.WORSE_K, "4:1.6")),
        ("start_failure_k=3:flag", Fault(FaultKind.START_FAILURE_K, "3:flag")),
        ("shift=sharegpt-eagle3", Fault(FaultKind.SHIFT, "sharegpt-eagle3")),
        ("truncate_metrics", Fault(FaultKind.TRUNCATE_METRICS, "silent")),
        ("http_500", Fault(FaultKind.HTTP_500)),
    ],
)
def test_a_flag_is_read(text: str, expected: Fault) -> None:
    assert parse_fault(text) == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("explode", "one of cliff"),
        ("cliff=2", "cliff with the acceptance"),
        ("worse_k", "worse_k with K or K:FACTOR"),
        ("stuck=1", "stuck with no value"),
        ("truncate_metrics=half", "silent"),
        ("shift=nowhere", "nowhere"),
        ("decay=x", "seconds of uptime"),
        ("cliff@soon", "KIND"),
    ],
)
def test_a_wrong_flag_says_what_was_expected(text: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fault(text)
    assert named in str(caught.value)


def test_numbers_of_a_value() -> None:
    assert parse_fault("worse_k=4:1.6").numbers() == (4.0, 1.6)
    assert parse_fault("start_failure_k=3:oom").numbers() == (3.0,)
    assert str(parse_fault("worse_k=4:1.6@9")) == "worse_k=4:1.6@9s"


def test_a_fault_begins_at_its_second() -> None:
    faults = Faults([parse_fault("cliff@40")])
    assert faults.active(FaultKind.CLIFF, 39.9) is None
    assert faults.active(FaultKind.CLIFF, 40.0) is not None
    assert faults.next_change(0.0) == 40.0
    assert faults.next_change(40.0) is None


def test_an_order_at_run_time_counts_from_then_and_can_be_taken_back() -> None:
    faults = Faults()
    faults.order(make_fault("stuck", after_seconds=5), 100.0)
    assert faults.active(FaultKind.STUCK, 104.0) is None
    assert faults.active(FaultKind.STUCK, 105.0) is not None
    faults.clear(FaultKind.STUCK)
    faults.clear(FaultKind.STUCK)
    assert faults.active(FaultKind.STUCK, 105.0) is None and list(faults) == []


def test_a_start_fault_cannot_be_ordered_later() -> None:
    with pytest.raises(ConfigError, match="start flag"):
        Faults().order(make_fault("slow_start"), 1.0)
