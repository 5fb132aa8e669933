"""Every page in a real browser on a real store: with and without scripts, dark and light, by mouse and by keyboard."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from monitor.app.desk import DaemonDesk
from monitor.app.heart import Heart
from monitor.app.view import DaemonView
from monitor.clock import SystemClock
from monitor.config.rules import load_objectives
from monitor.cycle.slos import SloKeeper
from monitor.model.record import CommandKind, Pause
from monitor.report.assemble import assemble
from monitor.report.content import WeeklyReport
from monitor.report.render import SMALL_FLEET, to_html
from monitor.shipped import rules_folder
from monitor.store import Store, open_store
from monitor.telemetry import Telemetry
from monitor.web.pages import make_app
from monitor.web.server import WebServer
from tests.fakes.story import CODE, GROUPS, SERVERS, write_story
from tests.integration.browser import flaws, tab

CLOCK = SystemClock()
PAGES = (
    "/", "/groups/chat?span=30d", "/servers/chat-1?span=7d", "/servers/rag-1?span=1h", "/alerts", "/alerts/{alert}",
    "/objectives", "/decisions", "/decisions/d-chat3", "/rollouts", "/rollouts/r-two", "/silences", "/reports",
    "/activity", "/evidence/ev-1", "/runbooks/acceptance-cliff", "/report",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path_factory.mktemp('story')}/local.db")
    opened.upgrade()
    write_story(opened, CLOCK.now())
    yield opened
    opened.close()


def week(store: Store) -> WeeklyReport:
    """The report on the story's last week."""
    with store.read() as unit:
        return assemble(
            unit, GROUPS, end=CLOCK.now(), now=CLOCK.now(), key="2026-W48", host="gpu-7", target=0.6, simulated=False
        )


@pytest.fixture(scope="module")
def site(store: Store) -> Iterator[str]:
    """The address of the page, served as the daemon serves it."""
    slos = SloKeeper(store, load_objectives([rules_folder() / "slo.yaml"]), GROUPS)
    slos.read_back(CLOCK.now())
    view = DaemonView(
        store, Telemetry(), GROUPS, SERVERS, CLOCK, Heart(CLOCK, 1e9), tried_all=lambda: True,
        report_file=lambda key, ending: None, live_report=lambda: to_html(week(store)),
        slos=lambda: slos.statuses, courses=slos.courses,
    )  # fmt: skip
    app = make_app(
        view, DaemonDesk(store, ["*", f"group:{CODE}"], CLOCK), token=None, hosts=frozenset({"127.0.0.1"}),
        simulated=False, target=0.6, permits=lambda uid: uid == os.getuid(),
    )
    server = WebServer(app, "127.0.0.1:0")
    server.start()
    yield server.url
    server.stop()


def path_of(store: Store, path: str) -> str:
    with store.read() as unit:
        return path.format(alert=next(a.fingerprint for a in unit.alerts.all() if a.name == "AcceptanceCliff"))


def look_at(page: Page, path: str, mood: str) -> None:
    """Keep a picture of the page in the folder of ACCEPTD_TEST_PICTURES, to be looked at; none without that."""
    folder = os.environ.get("ACCEPTD_TEST_PICTURES")
    if folder:
        name = re.sub(r"\W+", "_", path).strip("_") or "fleet"
        page.screenshot(path=Path(folder) / f"{name}_{mood}.png", full_page=True)


@pytest.mark.parametrize("mood", ["light", "dark"])
def test_every_page_opens_without_a_complaint_and_is_accessible(
    browser: Browser, site: str, store: Store, mood: str
) -> None:
    found: list[str] = []
    with tab(browser, dark=mood == "dark") as page:
        # Colours are all that differs in the dark.
        for path in PAGES if mood == "light" else PAGES[:3]:
            page.goto(site + path_of(store, path))
            expect(page.locator("h1")).to_be_visible()
            found += [f"{path}: {flaw}" for flaw in flaws(page)]
            # What is too wide scrolls in its own box; the page does not.
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            look_at(page, path, mood)
    assert found == []


def test_every_page_works_without_scripts_and_on_a_telephone(browser: Browser, site: str, store: Store) -> None:
    with tab(browser, scripts=False, viewport={"width": 390, "height": 800}) as page:
        for path in PAGES:
            page.goto(site + path_of(store, path))
            expect(page.locator("h1")).to_be_visible()
            if path != "/report":
                expect(page.locator("nav[aria-label=Pages] a").first).to_be_visible()
            look_at(page, path, "telephone")


def test_the_report_prints_on_paper_and_can_be_read_in_the_dark(browser: Browser, site: str) -> None:
    with tab(browser, dark=True) as page:
        page.goto(f"{site}/report")
        assert flaws(page) == []
        look_at(page, "/report", "dark")
        shown = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)" != shown
        look_at(page, "/report", "print")
        # A4 less a centimetre on either side: paper does not scroll.
        page.set_viewport_size({"width": 718, "height": 1000})
        fits = "[...document.querySelectorAll('.card')].every(card => card.scrollWidth <= card.clientWidth)"
        assert page.evaluate(fits)
        paper = page.pdf(format="A4")
        assert paper.startswith(b"%PDF") and len(paper) > 20_000


def test_the_report_on_more_servers_than_have_charts_of_their_own_is_accessible(
    browser: Browser, store: Store
) -> None:
    report = week(store)
    first = report.groups[0]
    many = [replace(first.servers[0], name=f"chat-{number}") for number in range(SMALL_FLEET + 1)]
    with tab(browser) as page:
        page.set_content(to_html(replace(report, groups=[replace(first, servers=many)])))
        assert page.locator("tbody svg").count() == len(many)
        assert flaws(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        look_at(page, "report of many", "light")


def test_an_alert_is_acknowledged_and_silenced_without_scripts(browser: Browser, site: str, store: Store) -> None:
    with tab(browser, scripts=False) as page:
        page.goto(site)
        item = page.locator(".item", has_text="AcceptanceCliff")
        item.get_by_role("button", name="Acknowledge").click()
        expect(page.get_by_text("is on it")).to_be_visible()
        page.go_back()
        page.reload()
        page.locator(".item", has_text="AcceptanceCliff").get_by_role("button", name="Silence 4 h").click()
        expect(page.locator("h1")).to_have_text("Silences and pauses")
        expect(page.get_by_text("alertname=AcceptanceCliff")).to_be_visible()
        page.locator("tr", has_text="AcceptanceCliff").get_by_role("button", name="End now").click()
        expect(page.locator("tr", has_text="AcceptanceCliff")).to_contain_text("over")
    with store.read() as unit:
        alert = next(a for a in unit.alerts.all() if a.name == "AcceptanceCliff")
        assert alert.acknowledged_by is not None


def test_a_group_is_paused_by_keyboard_alone(browser: Browser, site: str, store: Store) -> None:
    with tab(browser) as page:
        page.goto(f"{site}/groups/code")
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        summary = page.locator("summary", has_text="Pause changes of this group")
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.tagName") == "SUMMARY":
                break
        expect(summary).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("")
        page.keyboard.press("Control+A")
        page.keyboard.type("2h")
        page.keyboard.press("Tab")
        page.keyboard.type("new driver")
        page.keyboard.press("Enter")
        expect(page.get_by_text("new driver")).to_be_visible()
    with store.read() as unit:
        pause = next(one for one in unit.pauses.active(CLOCK.now()) if one.scope == "group:code")
    assert pause.until is not None and timedelta(hours=1.9) < pause.until - pause.since < timedelta(hours=2.1)


@pytest.mark.parametrize(
    ("button", "kind", "answer"),
    [
        ("Approve", CommandKind.APPROVE, "approved: d-chat3 is carried out"),
        ("Reject", CommandKind.REJECT, "declined: d-chat3 is not asked for again for a day"),
    ],
)
def test_a_decision_is_answered_and_what_comes_of_it_is_awaited(
    browser: Browser, site: str, store: Store, button: str, kind: CommandKind, answer: str
) -> None:
    with tab(browser) as page:
        page.goto(f"{site}/decisions/d-chat3")
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("status")).to_contain_text("Not answered yet")
        with store.write() as unit:
            (command,) = unit.commands.pending()
            assert (command.kind, command.subject) == (kind, "d-chat3")
            unit.commands.finish(command.id, CLOCK.now(), answer)
        page.reload()
        expect(page.get_by_role("status")).to_contain_text(answer.partition(":")[0])


def test_a_page_of_another_site_can_do_nothing(browser: Browser, site: str, store: Store) -> None:
    with tab(browser, complaints=(said := [])) as page:
        page.goto(site)
        page.goto("about:blank")
        page.set_content(f'<form method="post" action="{site}/decisions/d-chat3/approve"><button>x</button></form>')
        page.get_by_role("button").click()
        expect(page.locator("h1")).to_have_text("Not done")
        said.clear()  # the refusal is an error to the browser's console
    with store.read() as unit:
        assert unit.commands.pending() == []


def test_the_page_keeps_itself_current_but_not_under_the_hands_of_who_writes(
    browser: Browser, site: str, store: Store
) -> None:
    with tab(browser) as page:
        page.clock.install()
        page.goto(f"{site}/servers/chat-1")
        expect(page.get_by_text("paused: ours")).to_have_count(0)
        page.locator("summary", has_text="Silence its alerts").click()
        page.get_by_label("Why").last.fill("half a sen")
        with store.write() as unit:
            unit.pauses.set(Pause("group:chat", "mira", "ours", CLOCK.now()))
        page.clock.run_for(20_000)
        expect(page.get_by_label("Why").last).to_have_value("half a sen")
        page.locator("h1").click()
        page.evaluate("document.activeElement.blur()")
        page.clock.run_for(20_000)
        expect(page.get_by_text("paused; would")).to_be_visible()
