from __future__ import annotations

import pytest

from monitor.errors import ConfigError
from monitor.model.slo import Indicator
from monitor.shipped import rules_folder
from monitor.slo.load import SloPolicy, check_scopes, load_slos


def load(entry: str) -> SloPolicy:
    (only,) = load_slos({"slo.yaml": f"slos:\n  - {{{entry}}}\n"})
    return only


def test_an_slo_with_everything() -> None:
    policy = load(
        "name: ttft, indicator: time_to_first_token, threshold: 1500ms, objective: 0.99, period: 28d, group: chat, "
        "minimum_events: 50, slice: 1m, windows: [page_quick], description: fast"
    )
    slo = policy.slo
    assert (slo.indicator, slo.threshold, slo.objective, slo.period_days) == (
        Indicator.TIME_TO_FIRST_TOKEN, 1.5, 0.99, 28.0,
    )
    assert (slo.group, slo.minimum_events, slo.slice_seconds, slo.report_only) == ("chat", 50.0, 60.0, False)
    assert [w.name for w in policy.windows] == ["page_quick"]
    assert (policy.where, policy.description) == ("slo.yaml:2", "fast")


class TestAcceptance:
    ENTRY = "name: a, indicator: acceptance, threshold: 0.6, objective: 0.9"

    def test_is_only_reported_by_default(self) -> None:
        policy = load(self.ENTRY)
        assert (policy.slo.report_only, policy.windows) == (True, ())

    def test_may_open_tickets_and_never_pages(self) -> None:
        policy = load(f"{self.ENTRY}, report_only: false")
        assert [w.name for w in policy.windows] == ["ticket_quick", "ticket_slow"]
        with pytest.raises(ConfigError, match="acceptance never pages"):
            load(f"{self.ENTRY}, report_only: false, windows: [page_quick]")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("indicator: uptime, objective: 0.9", "name: found nothing, expected a value (it is required)"),
        ("name: u, indicator: upptime, objective: 0.9", "expected one of time_to_first_token, inter_token"),
        ("name: u, indicator: uptime, objective: 1.0", "SLO u: objective: found 1.0, expected a share above 0"),
        ("name: u, indicator: uptime, objective: 99.5", "expected a share above 0 and below 1, such as 0.995"),
        ("name: u, indicator: acceptance, objective: 0.9, threshold: 0.6, slice: 0s", "a slice from 1m to 30m"),
        ("name: u, indicator: acceptance, objective: 0.9, threshold: 0.6, slice: 1d", "a slice from 1m to 30m"),
        ("name: u, indicator: throughput, objective: 0.99, threshold: .inf", "found inf, expected a duration such as"),
        ("name: ö, indicator: uptime, objective: 0.99", "at most 63, that begins with a letter or digit"),
        ("name: u, indicator: uptime, objective: 0.99, threshold: 1s", "expected no threshold: uptime counts answers"),
        ("name: u, indicator: e2e_request, objective: 0.99", "expected a duration above 0, such as 2s or 50ms"),
        ("name: u, indicator: e2e_request, objective: 0.99, threshold: 2", "found 2, expected a duration above 0"),
        ("name: u, indicator: throughput, objective: 0.99, threshold: 2s", "found '2s', expected a number without a"),
        ("name: u, indicator: efficiency, objective: 0.99, threshold: 60", "expected a ratio above 0 and at most 1"),
        ("name: u, indicator: throughput, objective: 0.99, threshold: -1", "expected tokens per second above 0"),
        ("name: u, indicator: uptime, objective: 0.99, period: 1d", "found '1d', expected a period of at least 7d"),
        ("name: u, indicator: uptime, objective: 0.99, period: 30", "found 30, expected a duration such as"),
        ("name: u, indicator: uptime, objective: 0.99, windows: [page_slow, fast]",
         "SLO u: windows[1]: found 'fast', expected some of page_quick"),
        ("name: u, indicator: uptime, objective: 0.99, windows: []", "expected some of page_quick"),
        ("name: u, indicator: uptime, objective: 0.99, group: g, server: s",
         "SLO u: server: found 's', expected only one of group, server and model (group is given too)"),
        ("name: u, indicator: uptime, objective: 0.99, model: m",
         "SLO u: model: found 'm', expected a group or a server: uptime is counted for each server"),
        ("name: u, indicator: uptime, objectiv: 0.99", "did you mean objective?"),
        ("name: u, indicator: uptime, objective: 0.90", "1 / 0.1 = 10, but page_quick asks for more than 14.4"),
    ],
)
def test_a_mistake_names_its_place_and_what_is_allowed(entry: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(entry)
    assert message in str(caught.value)
    assert "slo.yaml:2:" in str(caught.value)


def test_every_mistake_is_told_at_once() -> None:
    text = (
        "slos:\n  - {name: a, indicator: uptime, objective: 2}\n  - {name: b, indicator: up, objective: 0.9}\n"
        "  - {name: c, indicator: uptime, objective: 0.999}\n  - {name: c, indicator: uptime, objective: 0.999}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_slos({"one.yaml": text, "two.yaml": "slos: 3\n", "three.yaml": "", "four.yaml": "slos: [\n"})
    files = [p.file.split(":")[0] for p in caught.value.problems]
    assert files == ["one.yaml"] * 3 + ["two.yaml", "three.yaml", "four.yaml"]


def test_an_slo_of_a_group_or_server_that_does_not_exist_is_a_mistake() -> None:
    """It would count nothing and read as 100 %."""
    policies = load_slos({
        "s.yaml": "slos:\n  - {name: a, indicator: uptime, objective: 0.99, group: caht}\n"
        "  - {name: b, indicator: uptime, objective: 0.99, server: x}\n"
    })
    found = check_scopes(policies, ["chat", "code"], [])
    assert [str(p) for p in found] == [
        "s.yaml:2: SLO a: group: found 'caht', expected one of chat, code; did you mean chat?",
        "s.yaml:3: SLO b: server: found 'x', expected a server, but none is configured",
    ]
    assert check_scopes(policies, ["caht"], ["x"]) == []


def test_the_shipped_file_loads() -> None:
    policies = load_slos({"slo.yaml": (rules_folder() / "slo.yaml").read_text()})
    assert {p.slo.name for p in policies} == {"availability", "uptime", "first-token", "token-pace", "acceptance"}
    assert [p.slo.name for p in policies if p.slo.report_only] == ["acceptance"]
