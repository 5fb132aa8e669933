"""Every page and endpoint on a fleet with a past: what they say, who may look, who may act, what headers guard them."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from monitor.app.desk import DaemonDesk
from monitor.app.heart import Heart
from monitor.app.view import DaemonView
from monitor.config.rules import load_objectives
from monitor.cycle.slos import SloKeeper
from monitor.model.alert import Matcher, SilenceId
from monitor.model.record import CommandKind, Evidence
from monitor.shipped import rules_folder
from monitor.telemetry import Telemetry
from monitor.web.pages import POLICY, make_app
from tests.fakes.fake_clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.story import CHAT_1, GROUPS, HOSTILE, SERVERS, write_story

CLOCK = FakeClock()
#: Every page, with a word that shows that it is that page.
PAGES = {
    "/": "Needs somebody",
    "/groups/chat": "What acceptd would do",
    "/groups/chat?span=90d": "Acceptance length",
    "/servers/chat-1": "Process lives",
    "/servers/rag-1?span=7d": "Evidence kept",
    "/alerts": "HighPreemptions",
    "/alerts/{alert}": "Numbers it rests on",
    "/objectives": "Their history is being read.",
    "/decisions": "waiting for approval|awaiting approval",
    "/decisions?all=1": "d-rag1",
    "/decisions/d-chat3": "What acting on it does",
    "/rollouts": "r-two",
    "/rollouts/r-two": "rolled back",
    "/silences": "ab12cd34",
    "/evidence/ev-1": "page and log when it broke",
    "/runbooks/acceptance-cliff": "acceptance-cliff",
    "/activity": "jonas",
    "/reports": "2026-W47",
}


@pytest.fixture(scope="module")
def told() -> MemoryStore:
    store = MemoryStore()
    write_story(store, CLOCK.now())
    return store


class Site:
    """The application on the story's store, and a browser that keeps its cookies."""

    def __init__(
        self, store: MemoryStore, folder: Path, slos: SloKeeper | None = None, **more: Any
    ) -> None:
        self.store = store
        self.report = folder / "acceptd-2026-W47.html"
        view = DaemonView(
            store, Telemetry(), GROUPS, SERVERS, CLOCK, Heart(CLOCK, 120.0), tried_all=lambda: True,
            report_file=lambda key, ending: self.report if ending == "html" and self.report.is_file() else None,
            live_report=lambda: "<style>p{color:red}</style><p>so far</p>",
            slos=lambda: slos.statuses if slos is not None else None,
            courses=slos.courses if slos is not None else lambda now, group, most: None,
        )
        scopes = ["*", *(f"group:{g.name}" for g in GROUPS), *(f"server:{s.name}" for s in SERVERS)]
        options = {"token": None, "hosts": frozenset({"localhost"}), "simulated": True, "target": 0.6, **more}
        self.app = make_app(view, DaemonDesk(store, scopes, CLOCK), **options)
        self.web: FlaskClient = self.app.test_client()
        # What the kernel would say of a loopback connection is asked of no one here.
        self.me = {"REMOTE_ADDR": "127.0.0.1"}

    def text(self, path: str, status: int = 200, **headers: str) -> str:
        answer = self.web.get(path.format(alert=self.alert), headers=headers)
        assert answer.status_code == status, answer.get_data(as_text=True)
        return answer.get_data(as_text=True)

    @property
    def alert(self) -> str:
        with self.store.read() as unit:
            return next(a.fingerprint for a in unit.alerts.all() if a.name == "AcceptanceCliff")

    def proof(self) -> str:
        found = re.search(r'name="form" value="([0-9a-f]+)"', self.text("/silences"))
        assert found is not None
        return found[1]

    def post(self, path: str, proof: str | None = None, headers: Mapping[str, str] | None = None, **form: str) -> Any:
        data = {**form, "form": self.proof() if proof is None else proof}
        return self.web.post(path.format(alert=self.alert), data=data, headers=headers)


@pytest.fixture
def site(told: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site on which everything may be done; what is done is undone in the end."""
    monkeypatch.setattr("monitor.web.guard.peer_uid", lambda environ: 0)
    before = told.tables.copy()
    yield Site(told, tmp_path)
    told.tables.restore(before)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def pages(told: MemoryStore, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every page, fetched once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("monitor.web.guard.peer_uid", lambda environ: 0)
        site = Site(told, tmp_path_factory.mktemp("site"))
        return {path: site.web.get(path.format(alert=site.alert)) for path in PAGES}


@pytest.mark.parametrize(("path", "words"), PAGES.items(), ids=list(PAGES))
def test_every_page_says_what_it_is_for_and_lets_nothing_hostile_in(pages: Any, path: str, words: str) -> None:
    answer = pages[path]
    text = answer.get_data(as_text=True)
    assert answer.status_code == 200 and "SIMULATED" in text
    assert any(word in text for word in words.split("|")), text
    assert HOSTILE not in text and "<script>alert" not in text
    tags = Tags(text).seen
    for tag, attrs in tags:
        assert "style" not in attrs and not any(name.startswith("on") for name in attrs), (tag, attrs)
        for name in ("src", "href", "action", "data", "poster"):
            assert (attrs.get(name) or "/")[:1] in ("/", "?", "#"), (tag, attrs)
        assert tag != "style" and (tag != "script" or attrs.get("src") == "/static/page.js")
    headers = answer.headers
    assert headers["Content-Security-Policy"] == POLICY and "unsafe" not in POLICY
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    # Every form carries the proof, every field has a label, every id is there once.
    assert text.count("<form ") == text.count('name="form" value="')
    labelled = {attrs.get("for") for tag, attrs in tags if tag == "label"}
    fields = [a for tag, a in tags if tag in ("input", "select", "textarea") and a.get("type") != "hidden"]
    assert all(field["id"] in labelled for field in fields)
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    assert len(ids) == len(set(ids))


class TestWhatTheySay:
    def test_the_first_page_shows_what_needs_somebody_first(self, site: Site) -> None:
        text = site.text("/")
        places = [text.index(what) for what in ("1 page firing", "AcceptanceCliff", "chat: lower", "Groups</h2>")]
        assert places == sorted(places)
        assert "4 / 4" in text and "waits for approval: lower to 2 (+6.0%)" in text

    def test_figures_are_those_of_the_store(self, site: Site) -> None:
        text = site.text("/servers/chat-1")
        rate = sum(0.72**n for n in (1, 2, 3)) / 3
        assert f"{rate:.1%}" in text and "2.61" in text and "12.4 ms" in text

    def test_charts_mark_changes_and_tell_the_setting_that_was_in_force(self, site: Site) -> None:
        text = site.text("/servers/chat-1?span=30d")
        assert text.count('<svg class="chart"') == 8
        assert 'class="mark kept"' in text and 'class="mark undone"' in text
        assert "eagle3, 2 tokens" in text and "eagle3, 3 tokens" in text

    @pytest.mark.parametrize("span", ["1h", "6h", "24h", "7d", "30d", "90d"])
    def test_every_span_has_rows_that_reach_to_now(self, site: Site, span: str) -> None:
        history = site.web.get(f"/api/v1/servers/chat-1/history?span={span}").get_json()
        assert 30 <= len(history["rows"]) <= 200
        assert history["rows"][-1]["at"] == CLOCK.now().isoformat()
        known = [row for row in history["rows"] if row["acceptance_length"] is not None]
        assert len(known) > 0.8 * len(history["rows"])

    def test_a_fleet_of_many_servers_is_shown_by_groups(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("monitor.web.looking._SMALL_FLEET", 3)
        text = site.text("/")
        assert "/groups/chat" in text and 'href="/servers/chat-1"' not in text

    def test_what_is_not_there_is_named(self, site: Site) -> None:
        for path in ("/groups/x", "/servers/x", "/alerts/x", "/decisions/x", "/rollouts/x", "/evidence/x", "/reports/x",
                     "/runbooks/x", "/requests/x", "/nothing", "/runbooks/..%2f..%2fREADME"):
            assert "Not found" in site.text(path, 404)
            assert "error" in site.web.get(f"/api/v1{path}").get_json()
        assert "expected one of 1h" in site.text("/groups/chat?span=2d", 400)
        assert "expected a number above 0" in site.text("/decisions?days=x", 400)

    def test_without_scripts_a_page_can_be_reloaded_by_the_browser(self, site: Site) -> None:
        assert site.web.get("/?live=1").headers["Refresh"] == "30"
        assert "Refresh" not in site.web.get("/").headers


class TestReports:
    def test_a_report_may_use_its_own_style_sheet_and_no_other(self, site: Site) -> None:
        site.report.write_text("<style>p{}</style><p>week</p>")
        for path in ("/report", "/report/latest", "/report/2026-W47"):
            policy = site.web.get(path).headers["Content-Security-Policy"]
            assert "style-src 'sha256-" in policy and "unsafe" not in policy and "script" not in policy

    def test_one_that_is_missing_is_named(self, site: Site) -> None:
        assert site.web.get("/report/latest").status_code == 404
        assert site.web.get("/report/..%2f..%2fetc%2fpasswd").status_code == 404
        assert site.web.get("/report/2026-W47/json").status_code == 404


class TestGoingBack:
    @pytest.mark.parametrize(
        ("rollout", "words"), [("r-one", ">Go back<"), ("r-two", ""), ("r-three", ">Call it off and go back<")]
    )
    def test_only_what_would_be_undone_has_the_button(self, site: Site, rollout: str, words: str) -> None:
        said = site.text(f"/rollouts/{rollout}")
        assert words in said and ("/rollback" in said) is bool(words)


class TestActing:
    @pytest.mark.parametrize(
        ("path", "kind", "subject"),
        [
            ("/decisions/d-chat3/approve", CommandKind.APPROVE, "d-chat3"),
            ("/decisions/d-chat3/reject", CommandKind.REJECT, "d-chat3"),
            ("/rollouts/r-one/rollback", CommandKind.ROLLBACK, "r-one"),
            ("/reports", CommandKind.REPORT, ""),
        ],
    )  # fmt: skip
    def test_a_request_is_written_down_with_its_author(
        self, site: Site, path: str, kind: CommandKind, subject: str
    ) -> None:
        answer = site.post(path)
        assert answer.status_code == 303
        with site.store.read() as unit:
            (command,) = unit.commands.pending()
        assert (command.kind, command.subject, command.author) == (kind, subject, "root")
        assert answer.headers["Location"] == f"/requests/{command.id}"
        assert "Not answered yet" in site.text(answer.headers["Location"])
        with site.store.write() as unit:
            unit.commands.finish(command.id, CLOCK.now(), "refused (paused): the group is paused")
        assert "refused (paused)" in site.text(answer.headers["Location"])

    def test_a_plan_is_made_anew_and_shown(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        def answer(seconds: float) -> None:
            with site.store.write() as unit:
                (command,) = unit.commands.pending()
                parts = {"command line of chat-1": "+ made just now"}
                unit.evidence.add(Evidence(f"plan:{command.id}", CHAT_1, CLOCK.now(), "plan", parts))
                unit.commands.finish(command.id, CLOCK.now(), "plan p-1")

        monkeypatch.setattr(CLOCK, "sleep", answer)
        answered = site.post("/decisions/d-chat3/plan")
        assert "made just now" in site.text(answered.headers["Location"])
        assert "made just now" not in site.text("/decisions/d-chat3")

    def test_silencing_an_alert_silences_it_alone(self, site: Site) -> None:
        assert site.post("/alerts/{alert}/silence", reason="known").status_code == 303
        with site.store.read() as unit:
            made = unit.silences.all()[-1]
            found = [a.name for a in unit.alerts.all() if made.mutes(a.labels, CLOCK.now())]
        assert found == ["AcceptanceCliff"]
        assert (made.ends_at - made.starts_at, made.author, made.reason) == (timedelta(hours=4), "root", "known")
        assert f"/silences/{made.id}/end" in site.text("/silences")
        assert site.post(f"/silences/{made.id}/end").status_code == 303
        assert site.post(f"/silences/{made.id}/end").status_code == 404

    def test_a_silence_of_any_alerts(self, site: Site) -> None:
        form = {"matchers": "server=chat-1\n\nalertname=~A.*", "for": "30m", "reason": "x"}
        assert site.post("/silences", **form).status_code == 303
        with site.store.read() as unit:
            assert [str(m.value) for m in unit.silences.all()[-1].matchers] == ["chat-1", "A.*"]
            assert unit.audit.recent(1)[0].what == "silence"

    def test_a_stored_one_that_re2_refuses_says_that_it_hides_nothing(self, site: Site) -> None:
        with site.store.write() as unit:
            (known, *_) = unit.silences.all()
            unit.silences.add(replace(known, id=SilenceId("old"), matchers=(Matcher("server", "=~", "x(?=y)"),)))
        assert "It hides nothing:" in site.text("/silences") and "look-ahead" in site.text("/silences")

    @pytest.mark.parametrize(
        ("form", "words"),
        [
            ({"matchers": "", "for": "4h"}, "everything would be silent"),
            ({"matchers": "server", "for": "4h"}, "LABEL=VALUE"),
            ({"matchers": "server=~(", "for": "4h"}, "a regular expression that RE2 can read"),
            ({"matchers": "server=a", "for": "4"}, "a duration"),
            ({"matchers": "server=a", "for": "400d"}, "largest first), at most 365d"),
        ],
    )  # fmt: skip
    def test_a_silence_that_cannot_be_says_why(self, site: Site, form: dict[str, str], words: str) -> None:
        answer = site.post("/silences", **form)
        assert answer.status_code == 400 and words in answer.get_data(as_text=True)

    def test_pausing_and_lifting_it(self, site: Site) -> None:
        assert site.post("/pauses", scope="server:chat-1", reason="mine", **{"for": ""}).status_code == 303
        assert "server:chat-1" in site.text("/silences")
        assert site.post("/pauses/end", scope="server:chat-1").status_code == 303
        assert site.post("/pauses/end", scope="server:chat-1").status_code == 404
        assert site.post("/pauses", scope="server:other", **{"for": "4h"}).status_code == 404

    def test_acknowledging(self, site: Site) -> None:
        assert site.post("/alerts/{alert}/acknowledge").status_code == 303
        assert "root is on it" in site.text("/alerts")
        assert site.post("/alerts/none/acknowledge").status_code == 404


class TestForgery:
    def test_a_form_without_the_proof_does_nothing(self, site: Site) -> None:
        assert site.post("/decisions/d-chat3/approve", proof="").status_code == 403
        assert site.post("/decisions/d-chat3/approve", proof="0" * 64).status_code == 403
        with site.store.read() as unit:
            assert unit.commands.pending() == []

    def test_the_proof_is_worth_nothing_without_the_cookie_it_was_made_for(self, site: Site) -> None:
        proof = site.proof()
        site.web = site.app.test_client()
        assert site.post("/decisions/d-chat3/approve", proof=proof).status_code == 403

    @pytest.mark.parametrize(
        "headers",
        [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
         {"Sec-Fetch-Site": "same-site"}],
        ids=str,
    )  # fmt: skip
    def test_what_comes_from_another_site_does_nothing(self, site: Site, headers: dict[str, str]) -> None:
        assert site.post("/decisions/d-chat3/approve", headers=headers).status_code == 403
        answer = site.web.post("/api/v1/decisions/d-chat3/approve", json={}, headers=headers)
        assert answer.status_code == 403

    def test_the_cookie_is_kept_from_scripts_and_other_sites(self, site: Site) -> None:
        cookie = site.web.get("/").headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie

    def test_our_own_form_is_taken_with_what_a_browser_sends(self, site: Site) -> None:
        headers = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
        assert site.post("/decisions/d-chat3/approve", headers=headers).status_code == 303


class TestWhoMayAct:
    def test_a_user_who_may_not_write_the_store_may_only_look(
        self, told: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("monitor.web.guard.peer_uid", lambda environ: 65534)
        site = Site(told, tmp_path, permits=lambda uid: uid == 0)
        assert "<form" not in site.text("/") + site.text("/silences") + site.text("/decisions/d-chat3")
        assert "may not write acceptd" in site.text("/")
        answer = site.web.post("/api/v1/decisions/d-chat3/approve", json={})
        assert answer.status_code == 403 and "nobody" in answer.get_json()["error"]

    def test_a_user_who_cannot_be_told_may_only_look(self, told: MemoryStore, tmp_path: Path) -> None:
        site = Site(told, tmp_path)
        assert "<form" not in site.text("/silences") and "cannot tell which user" in site.text("/")

    def test_actions_can_be_switched_off(
        self, told: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("monitor.web.guard.peer_uid", lambda environ: 0)
        site = Site(told, tmp_path, actions=False)
        assert "<form" not in site.text("/") and "web.actions" in site.text("/")
        assert site.web.post("/api/v1/reports", json={}).status_code == 403

    def test_with_a_token_the_name_given_to_the_browser_is_the_author(self, told: MemoryStore, tmp_path: Path) -> None:
        before = told.tables.copy()
        site = Site(told, tmp_path, token="hunter2")
        auth = {"Authorization": "Basic " + base64.b64encode(b"mira:hunter2").decode()}
        proof = re.search(r'name="form" value="([0-9a-f]+)"', site.text("/silences", **auth))
        assert proof is not None
        assert site.web.post("/decisions/d-chat3/approve", data={"form": proof[1]}, headers=auth).status_code == 303
        assert site.web.post("/decisions/d-chat3/approve", data={}, headers=auth).status_code == 403
        bearer = {"Authorization": "Bearer hunter2"}
        assert site.web.post("/api/v1/decisions/d-chat3/approve", headers=bearer).status_code == 202
        with told.read() as unit:
            assert [command.author for command in unit.commands.pending()] == ["mira", "web"]
        told.tables.restore(before)


@pytest.fixture(scope="module")
def slos(told: MemoryStore) -> SloKeeper:
    """The shipped objectives over the story, read back as a daemon does."""
    slos = SloKeeper(told, load_objectives([rules_folder() / "slo.yaml"]), GROUPS)
    slos.read_back(CLOCK.now())
    return slos


class TestObjectives:
    def test_each_has_its_budget_and_its_burn_drawn_with_rollouts_marked(
        self, told: MemoryStore, slos: SloKeeper, tmp_path: Path
    ) -> None:
        text = Site(told, tmp_path, slos).text("/objectives")
        assert "Over their periods" in text
        labels = [html.unescape(one) for one in re.findall(r'<svg class="chart"[^>]* aria-label="([^"]*)"', text)]
        budgets = [one for one in labels if one.startswith("Budget left of first-token")]
        burns = [one for one in labels if one.startswith("Burn rate of first-token")]
        assert len(budgets) == len(burns) > 0
        # The story's rollouts of `chat`: one kept, one undone.
        assert any("(kept)" in one and "(undone)" in one for one in budgets)
        assert HOSTILE not in text and " style=" not in text
        chosen = Site(told, tmp_path, slos).text("/objectives?group=code")
        assert " of code</h3>" in chosen and " of chat</h3>" not in chosen

    def test_the_last_step_of_the_history_is_the_figure_of_the_table(
        self, told: MemoryStore, slos: SloKeeper, tmp_path: Path
    ) -> None:
        site = Site(told, tmp_path, slos)
        now = {(one["name"], one["group"]): one for one in site.web.get("/api/v1/slos").get_json()["slos"]}
        courses = site.web.get("/api/v1/slos/history?group=chat").get_json()["slos"]
        assert {one["group"] for one in courses} == {"chat"}
        drawn = [one for one in courses if one["rows"] and one["rows"][-1]["error_budget_remaining"] is not None]
        assert drawn
        for one in drawn:
            left = now[one["name"], "chat"]["error_budget_remaining"]
            assert one["rows"][-1]["error_budget_remaining"] == pytest.approx(left, abs=1e-6)

    def test_one_of_a_model_stands_with_the_groups_that_serve_it(self, told: MemoryStore, tmp_path: Path) -> None:
        """It keeps their changes back where its budget is gone."""
        file = tmp_path / "slo.yaml"
        text = {"name": "of-a-model", "indicator": "time_to_first_token", "threshold": "10s", "objective": 0.95,
                "period": "30d", "model": "llama-70b"}
        file.write_text(json.dumps({"slos": [text]}))
        slos = SloKeeper(told, load_objectives([file]), GROUPS)
        slos.read_back(CLOCK.now())
        site = Site(told, tmp_path, slos)
        (view,) = site.web.get("/api/v1/slos").get_json()["slos"]
        assert (view["group"], "chat" in view["groups"]) == (None, True)
        assert "of-a-model" in site.text("/groups/chat") and "None covers this group" not in site.text("/groups/chat")
        assert "Budget left of of-a-model" in site.text("/objectives?group=chat")

    def test_before_their_history_is_read_there_is_nothing_to_draw(self, site: Site) -> None:
        assert "Over their periods" not in site.text("/objectives")
        assert site.web.get("/api/v1/slos/history").get_json() == {"slos": None}


class TestApi:
    @pytest.mark.parametrize(
        "path",
        ["status", "groups/chat", "groups/chat/history", "servers/chat-1", "servers/chat-1/history?span=1h", "alerts",
         "alerts/{alert}", "slos", "decisions", "decisions?group=rag", "decisions/d-chat3", "rollouts",
         "rollouts/r-two", "silences", "evidence/ev-1", "activity", "reports"],
    )  # fmt: skip
    def test_everything_can_be_read(self, site: Site, path: str) -> None:
        answer = site.web.get(f"/api/v1/{path}".format(alert=site.alert))
        assert answer.status_code == 200 and isinstance(answer.get_json(), dict)

    def test_silences_and_pauses(self, site: Site) -> None:
        body = {"matchers": ["server=chat-1"], "for": "1h", "reason": "x"}
        made = site.web.post("/api/v1/silences", json=body)
        assert made.status_code == 201
        silence = made.get_json()
        assert silence["matchers"] == ["server=chat-1"] and silence["active"]
        assert site.web.delete(f"/api/v1/silences/{silence['id']}").status_code == 200
        assert site.web.delete(f"/api/v1/silences/{silence['id']}").status_code == 404
        assert site.web.post("/api/v1/pauses", json={"scope": "*", "for": "1h", "reason": "x"}).status_code == 201
        assert site.web.delete("/api/v1/pauses/*").status_code == 200
        assert site.web.post(f"/api/v1/alerts/{site.alert}/acknowledge", json={}).status_code == 200

    @pytest.mark.parametrize(
        ("body", "words"),
        [("", "no JSON object"), ([], "no JSON object"), ({"matcher": []}, "an unknown key"),
         ({"matchers": "a=b"}, "a list"), ({"matchers": ["a=b"], "for": 4}, "a text")],
    )  # fmt: skip
    def test_a_body_that_means_nothing_is_named(self, site: Site, body: object, words: str) -> None:
        answer = site.web.post("/api/v1/silences", json=body)
        assert answer.status_code == 400 and words in answer.get_json()["error"]

    def test_a_request_says_what_became_of_it(self, site: Site) -> None:
        made = site.web.post("/api/v1/decisions/d-chat3/reject", json={}).get_json()
        assert (made["kind"], made["taken"]) == ("reject", None)
        with site.store.write() as unit:
            unit.commands.finish(made["id"], CLOCK.now(), "declined: d-chat3 is not asked for again for a day")
        assert site.web.get(f"/api/v1/requests/{made['id']}").get_json()["taken"] is True


class TestPrograms:
    def test_health_and_readiness(self, site: Site) -> None:
        assert (site.web.get("/-/healthy").status_code, site.web.get("/-/ready").status_code) == (200, 200)
        assert b"acceptd_build_info" in site.web.get("/metrics").data

    def test_a_balancer_learns_which_server_may_have_traffic(self, site: Site) -> None:
        assert [site.web.get(f"/-/serving/{name}").status_code for name in ("chat-1", "other")] == [200, 404]

    def test_style_and_script_are_there(self, site: Site) -> None:
        assert b"prefers-color-scheme" in site.web.get("/static/style.css").data
        assert b"use strict" in site.web.get("/static/page.js").data
        assert site.web.get("/static/../pages.py").status_code == 404

    def test_a_strange_host_name_is_refused(self, site: Site) -> None:
        assert site.web.get("/metrics", headers={"Host": "evil.example"}).status_code == 421

    @pytest.mark.parametrize(
        ("header", "status"),
        [
            (None, 401),
            ("Bearer wrong", 401),
            ("Bearer hunter2", 200),
            ("Basic " + base64.b64encode(b"anyone:hunter2").decode(), 200),
            ("Basic " + base64.b64encode(b"hunter2:x").decode(), 401),
            ("Basic !!!", 401),
        ],
    )
    def test_with_a_token_every_request_needs_it(
        self, told: MemoryStore, tmp_path: Path, header: str | None, status: int
    ) -> None:
        web = Site(told, tmp_path, token="hunter2").web
        for path in ("/", "/metrics", "/-/healthy", "/api/v1/status", "/report", "/static/style.css"):
            answer = web.get(path, headers={"Authorization": header} if header else {})
            assert (answer.status_code == 401) == (status == 401)
        assert web.get("/metrics?token=hunter2").status_code == 401
