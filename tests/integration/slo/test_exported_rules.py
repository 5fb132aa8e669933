"""The exported rules burn as acceptd does: a real Prometheus evaluates them over the same events, backfilled."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from monitor.clock import SystemClock
from monitor.model.server import GroupName, ServerName
from monitor.model.slo import Indicator, Slo
from monitor.report.grafana import dashboard
from monitor.slo.book import SloBook
from monitor.slo.load import SloPolicy, load_slos
from monitor.slo.prometheus import prometheus_rules
from monitor.slo.windows import burn_windows
from tests.integration.metric_stores import metric_store

CLOCK = SystemClock()
STEP = 60.0
DAYS = 3.2
#: What happens in each group: share of checks missed, by age (seconds). Short and long, old and new, much and little.
STORIES = {
    "quiet": lambda age: 0.0,
    "burning": lambda age: 0.2 if age < 7200 else 0.001,
    "just-now": lambda age: 0.5 if age < 240 else 0.0,
    "over": lambda age: 0.3 if 1800 < age < 5400 else 0.0,
    "slow": lambda age: 0.012,
    "new": lambda age: 0.2,
    "new-and-well": lambda age: 0.2 if 600 < age < 900 else 0.0,
}
#: Groups that were first watched so long ago (seconds).
BEGAN = {"new": 2400.0, "new-and-well": 14_400.0}


def shipped() -> tuple[SloPolicy, ...]:
    from monitor.shipped import rules_folder

    return load_slos({"slo.yaml": (rules_folder() / "slo.yaml").read_text()})


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        missing = "promtool is not installed (Debian: apt-get install prometheus)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def test_promtool_takes_the_rules_of_every_shipped_objective(promtool: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(yaml.dump(prometheus_rules(shipped())))
    done = subprocess.run([promtool, "check", "rules", str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_promtool_takes_every_expression_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    board = dashboard()
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [one["expr"] for one in board["annotations"]["list"]]
    rules = [{"record": f"asked:{number}", "expr": expr.replace("$__rate_interval", "1m")}
             for number, expr in enumerate(asked)]
    path = tmp_path / "asked.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def policy() -> SloPolicy:
    slo = Slo(name="uptime", indicator=Indicator.UPTIME, objective=0.995, period_days=30.0, minimum_events=30.0)
    return SloPolicy(slo=slo, windows=burn_windows(30.0), where="test")


def events(now: datetime) -> Iterator[tuple[str, datetime, float, float]]:
    """Group, end, answered and missed checks: ten a minute."""
    for group, missed in STORIES.items():
        for index in range(int(BEGAN.get(group, DAYS * 86400) / STEP), -1, -1):
            age = index * STEP
            yield group, now - timedelta(seconds=age), 10 * (1 - missed(age)), 10 * missed(age)


def backfill(promtool: str, folder: Path, now: datetime) -> None:
    lines: dict[str, list[str]] = {"good": [], "valid": []}
    known: list[str] = []
    totals: dict[str, list[float]] = {}
    for group, at, answered, missed in events(now):
        total = totals.setdefault(group, [0.0, 0.0])
        total[0] += answered
        total[1] += answered + missed
        for kind, value in zip(lines, total, strict=True):
            labels = f'{{slo="uptime",group="{group}"}}'
            lines[kind].append(f"acceptd_slo_{kind}_events_total{labels} {value} {at.timestamp():.0f}")
        age = BEGAN.get(group, DAYS * 86400) - (now - at).total_seconds()
        known.append(f"acceptd_slo_known_seconds{labels} {age:.0f} {at.timestamp():.0f}")
    text = "".join(
        f"# TYPE acceptd_slo_{kind}_events counter\n" + "\n".join(found) + "\n" for kind, found in lines.items()
    )
    text += "# TYPE acceptd_slo_known_seconds gauge\n" + "\n".join(known) + "\n"
    path = folder / "events.om"
    path.write_text(text + "# EOF\n")
    done = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(path), str(folder / "data")],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def ask(url: str, query: str) -> dict[str, float]:
    """The newest value of a series by group."""
    answer: Any = requests.get(f"{url}/api/v1/query", params={"query": query}, timeout=30).json()
    return {one["metric"]["group"]: float(one["value"][1]) for one in answer["data"]["result"]}


def test_burn_rates_and_alerts_are_those_of_a_real_prometheus(promtool: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump(prometheus_rules([policy()])))
    began = CLOCK.now().replace(microsecond=0)
    backfill(promtool, tmp_path, began)
    book = SloBook([policy()], {GroupName(name): [ServerName(name)] for name in STORIES})
    for group, at, answered, missed in events(began):
        book.add_checks(ServerName(group), at, answered=answered, missed=missed)
    ours = {status.scope["group"]: status for status in book.statuses(began)}
    with metric_store("prometheus", tmp_path, [], rules=rules) as url:
        # What Prometheus says of the moment at which the events end: it evaluates the rule's own expressions then.
        groups = yaml.safe_load(rules.read_text())["groups"][0]["rules"]
        at = began.timestamp()
        told = {}
        for rule in groups:
            if rule.get("record", "").startswith("acceptd:slo_burn_rate:"):
                asked = {"query": rule["expr"], "time": at}
                answer: Any = requests.get(f"{url}/api/v1/query", params=asked, timeout=30).json()
                found = answer["data"]["result"]
                told[rule["record"].rpartition(":")[2]] = {
                    one["metric"]["group"]: float(one["value"][1]) for one in found
                }
        for window in policy().windows:
            for name, status in ours.items():
                burn = next(one for one in status.burns if one.window == window)
                for span, value in ((window.long_seconds, burn.long), (window.short_seconds, burn.short)):
                    theirs = told[_words(span)][name]
                    # A window's edge falls between two events: one of them more or less.
                    slack = 0.03 * abs(theirs) + 2.5 * STEP / span * max(STORIES[name](0.0), 0.02) / 0.005
                    assert value == pytest.approx(theirs, abs=slack), (name, window.name, span)
        # Its own evaluations, a moment later, fire the same alerts.
        firing = _alerts(url)
        expected = {
            (name, burn.window.severity.value)
            for name, status in ours.items() for burn in status.burns if burn.is_burning
        }
        assert firing == expected and expected


def _words(seconds: float) -> str:
    from monitor.model.duration import format_duration

    return format_duration(seconds)


def _alerts(url: str) -> set[tuple[str, str]]:
    """Alerts that Prometheus fires by its own clock, once it has evaluated all of its rules."""
    deadline = CLOCK.monotonic() + 90
    while CLOCK.monotonic() < deadline:
        rules: Any = requests.get(f"{url}/api/v1/rules", timeout=30).json()["data"]["groups"]
        if rules and all(rule["health"] == "ok" for group in rules for rule in group["rules"]) and ask(
            url, "acceptd:slo_burn_rate:6h"
        ):
            CLOCK.sleep(2.5)
            break
        CLOCK.sleep(0.5)
    found: Any = requests.get(f"{url}/api/v1/alerts", timeout=30).json()["data"]["alerts"]
    return {
        (one["labels"]["group"], one["labels"]["severity"])
        for one in found if one["labels"]["alertname"] == "ErrorBudgetBurn" and one["state"] == "firing"
    }
