"""docs/api.md against the application: every path, and the keys of every document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs import generate
from tests.fakes.memory_store import MemoryStore
from tests.fakes.story import write_story
from tests.unit.docs.test_cli_page import differences
from tests.unit.docs.test_cli_page import documented as of_cli
from tests.unit.web.test_pages import CLOCK, Site

PAGE = (generate.DOCS / "api.md").read_text()
#: Paths that pages need and nobody asks for by hand.
_SILENT = {"/static/NAME", "/favicon.ico"}
_NAMES = {"name": "NAME", "key": "KEY", "scope": "SCOPE"}


def documented(name: str) -> Any:
    found = re.search(rf"<!-- json: {name} -->\n```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, f"docs/api.md has no document called {name}"
    return json.loads(found[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    store = MemoryStore()
    write_story(store, CLOCK.now())
    return Site(store, tmp_path_factory.mktemp("site"), token="t")


def answer(site: Site, path: str) -> Any:
    return site.web.get(f"/api/v1/{path}", headers={"Authorization": "Bearer t"}).get_json()


def test_every_path_is_on_the_page(site: Site) -> None:
    told = {re.sub(r"\b(ID|FINGERPRINT)\b", "NAME", path) for path in re.findall(r"(/[\w/.-]*)[`?,]", PAGE)}
    missing = []
    for rule in site.app.url_map.iter_rules():
        if "POST" in (rule.methods or ()) and not rule.rule.startswith("/api"):
            continue  # forms of the pages
        path = rule.rule.replace("<any(approve, reject, plan):word>", "approve").replace("/<ending>", "/md")
        path = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: _NAMES[found[1]], path)
        if path not in told | _SILENT:
            missing.append(path)
    assert missing == []


@pytest.mark.parametrize(
    ("name", "path"),
    [("history", "servers/chat-1/history?span=24h"), ("alerts", "alerts"), ("rollout", "rollouts/r-two"),
     ("silences", "silences"), ("reports", "reports")],
)  # fmt: skip
def test_documents_have_the_keys_that_are_told(site: Site, name: str, path: str) -> None:
    real = answer(site, path)
    assert real and list(differences(documented(name), real)) == []


def test_what_is_said_to_be_as_on_the_command_line_is(site: Site) -> None:
    status = {key: value for key, value in of_cli("status").items() if key != "daemon"}
    assert list(differences(status, answer(site, "status"))) == []
    server = {**status["groups"][0]["servers"][0], **documented("server")}
    assert list(differences(server, answer(site, "servers/rag-1"))) == []
    why = of_cli("why")
    assert list(differences(why, answer(site, "decisions/d-chat2"))) == []
    assert list(differences(why["decision"], answer(site, "decisions")["decisions"][0])) == []
    assert list(differences(why["rollouts"][0], answer(site, "rollouts")["rollouts"][0])) == []
    assert list(differences(why["changes"], answer(site, "rollouts/r-two")["changes"])) == []
    assert list(differences(why["trail"], answer(site, "activity")["trail"])) == []
    history = of_cli("history")["rows"][0]
    assert list(differences(history, answer(site, "groups/chat/history")["rows"][0])) == []


def test_an_alert_and_a_request(site: Site, tmp_path: Path) -> None:
    alert = answer(site, f"alerts/{site.alert}")
    assert list(differences({**documented("alert"), "alert": of_cli("status")["alerts"][0]}, alert)) == []
    made = site.web.post("/api/v1/decisions/d-chat3/approve", headers={"Authorization": "Bearer t"}).get_json()
    assert list(differences(documented("request"), made)) == []
    assert answer(site, f"requests/{made['id']}")["id"] == made["id"]
