"""What people, lists and browsers hand in, mutilated: taken or refused in words; never a traceback, never a leak."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.config.everything import every_problem
from monitor.config.rules import vocabulary
from monitor.errors import ConfigError, MonitorError
from monitor.policy.load import load_rules
from monitor.shipped import rules_folder
from monitor.slo.load import load_slos
from monitor.store import open_store
from monitor.targets.service_discovery import read_answer, read_files
from monitor.tuning.document import answer_line
from tests.fakes.memory_store import MemoryStore
from tests.fakes.story import write_story
from tests.unit.web.test_pages import CLOCK, PAGES, Site

SECRET = "hunter2-never-shown"
CONFIG = f"""
data_dir: /tmp/x
mode: recommend
servers:
  - {{name: a, url: 'http://127.0.0.1:8000', group: chat, auth: {{bearer_token: {SECRET}}}}}
  - {{name: b, url: 'http://127.0.0.1:8001', group: chat, labels: {{team: x}}}}
groups: [{{name: chat, mode: auto, limits: {{drain_limit: 2m, changes_per_day: 2}}}}]
scrape: {{interval: 15s, timeout: 10s, size_limit: 16MiB}}
rules: {{tuning: guarded, parameters: {{raise-tokens.window: 15m}}}}
slack: {{bot_token: {SECRET}, channel: '#x'}}
web: {{listen: '0.0.0.0:9747', token: {SECRET}}}
report: {{day: mon, at: '09:00', timezone: Europe/Berlin}}
"""
#: What fits nowhere, or nearly: kinds, sizes, structures, YAML's own tricks.
PIECES = st.sampled_from([
    "~", "[]", "{}", "''", "0", "-1", "1e999", ".nan", "true", "off", "&a [*a]", "<<: 1", "!!python/object:os.system x",
    "'\\0'", "'{{'", "5 m", "99999999999999999999s", "../../etc/passwd", "http://[::1", "a: b: c", "- x", "\t", "'",
    "|", "*", "\u202e", "\x00", "9" * 400, "[[[[[[[[", "{a: {a: {a: {a: 1}}}}",
])  # fmt: skip
FAST = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def mutilated(draw: st.DrawFn, text: str) -> str:
    """`text` after a few accidents."""
    for _ in range(draw(st.integers(1, 4))):
        lines = text.split("\n")
        line, place = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, max(0, len(text) - 1)))
        match draw(st.sampled_from(["value", "drop", "double", "cut", "insert", "indent", "swap"])):
            case "value":
                key, colon, _ = lines[line].rpartition(": ")
                lines[line] = f"{key}{colon}{draw(PIECES)}"
                text = "\n".join(lines)
            case "drop":
                text = "\n".join(lines[:line] + lines[line + 1 :])
            case "double":
                text = "\n".join(lines[: line + 1] + lines[line:])
            case "cut":
                text = text[:place]
            case "insert":
                text = text[:place] + draw(PIECES) + text[place:]
            case "indent":
                lines[line] = "  " + lines[line]
                text = "\n".join(lines)
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[line], lines[other] = lines[other], lines[line]
                text = "\n".join(lines)
    return text


@FAST
@given(text=mutilated(CONFIG))
def test_any_configuration_is_taken_or_refused_in_words(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    file.write_text(text, errors="replace")
    problems, config, rules = every_problem(file, {})
    assert (config is None) == (rules is None) == bool(problems)
    for problem in problems:
        assert problem.expected and len(str(problem)) < 4000, problem
        # An accident may put a piece of a secret elsewhere; as a whole it is repeated where it stood by nobody.
        if f"token: {SECRET}" in text:
            assert f"token: {SECRET}" not in str(problem)


@FAST
@given(data=st.binary(max_size=300))
def test_any_bytes_are_no_configuration_or_one(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "bytes.yaml"
    file.write_bytes(data)
    problems, config, _ = every_problem(file, {})
    assert bool(problems) != (config is not None)


RULE_FILES = {path.stem: path.read_text() for path in rules_folder().glob("*.yaml") if ".test" not in path.name}
LOADERS: list[tuple[str, Callable[[str], Any]]] = [
    ("alerts", lambda text: load_rules({"f": text}, vocabulary())),
    ("guarded", lambda text: load_rules({"f": text}, vocabulary())),
    ("slo", lambda text: load_slos({"f": text})),
]


@pytest.mark.parametrize(("name", "load"), LOADERS, ids=[name for name, _ in LOADERS])
def test_any_rules_are_taken_or_refused_in_words(name: str, load: Callable[[str], Any]) -> None:
    @settings(FAST, max_examples=40)
    @given(text=mutilated(RULE_FILES[name]))
    def run(text: str) -> None:
        try:
            load(text)
        except ConfigError as error:
            assert error.problems and all(problem.expected for problem in error.problems)

    run()


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=12), below, max_size=4), max_leaves=12,
)  # fmt: skip


@FAST
@given(document=JSON | st.lists(st.fixed_dictionaries({"targets": JSON, "labels": JSON})))
def test_any_list_of_servers_is_taken_or_refused_in_words(document: Any) -> None:
    try:
        read_answer("http://x/list", 200, "application/json", json.dumps(document).encode())
    except (MonitorError, ValueError) as error:
        assert str(error)


SERVERS = """
- targets: ['10.0.0.1:8000', 'gpu-9:8000']
  labels: &all {acceptd_group: chat, rack: 12}
- targets: ['10.0.0.2:8000']
  labels: {<<: *all, zone: b}
"""


@FAST
@given(text=mutilated(SERVERS), ending=st.sampled_from(["yml", "json"]))
def test_any_file_of_servers_is_taken_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, text: str, ending: str
) -> None:
    file = tmp_path_factory.getbasetemp() / f"fuzzed.{ending}"
    file.write_text(text, errors="replace")
    try:
        read_files([file])
    except MonitorError as error:
        assert len(str(error)) < 1000


@FAST
@given(document=JSON | st.fixed_dictionaries({"method": JSON, "num_speculative_tokens": JSON, "observed": JSON}))
def test_any_document_of_a_tuner_is_answered_or_refused_in_words(document: Any) -> None:
    answer = json.loads(answer_line(json.dumps(document)))
    assert "error" in answer or "action" in answer


METHODS = st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH"])
NAMES = st.text(max_size=30) | st.sampled_from(
    ["..", "../../etc/passwd", "%2e%2e%2f", "%00", "latest", "a" * 5000, "<script>", "chat-1", "*", "group:chat"]
)
PATHS = st.sampled_from([
    *PAGES, "/report/{}", "/evidence/{}", "/runbooks/{}", "/servers/{}", "/api/v1/servers/{}/history", "/silences",
    "/api/v1/silences", "/api/v1/pauses", "/decisions/{}/approve", "/alerts/{}/silence", "/reports", "/static/{}",
    "/-/serving/{}", "/groups/{}?span={}", "/decisions?days={}", "/api/v1/evidence/{}", "{}",
])  # fmt: skip
VALUES = st.sampled_from([
    "localhost", "evil.example", "null", "Basic !!!", "Basic " + "QQ" * 500, "Bearer \xfc", "application/json", ";",
    "text/plain", "multipart/form-data; boundary=x", "cross-site", "a=b; c",
])  # fmt: skip
NAMED = st.sampled_from(["Host", "Origin", "Authorization", "Cookie", "Content-Type", "Sec-Fetch-Site", "Accept"])
HEADERS = st.dictionaries(NAMED, VALUES, max_size=4)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> list[Site]:
    store = MemoryStore()
    write_story(store, CLOCK.now())
    folder = tmp_path_factory.mktemp("site")
    return [Site(store, folder), Site(store, folder, token=SECRET)]


@settings(FAST, max_examples=250)
@given(method=METHODS, path=PATHS, names=st.lists(NAMES, min_size=2, max_size=2), headers=HEADERS,
       body=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_request_is_answered_and_none_by_a_failure(
    sites: list[Site], method: str, path: str, names: list[str], headers: dict[str, str], body: bytes
) -> None:
    wanted = path.format(*names, alert="x") if "{" in path else path
    wanted = wanted if wanted.startswith("/") else f"/{wanted}"
    for site in sites:
        answer = site.web.open(wanted, method=method, headers=headers, data=body)
        text = answer.get_data(as_text=True)
        assert answer.status_code < 500, (method, wanted, headers, body, text[:2000])
        assert SECRET not in text and "root:" not in text and "Traceback" not in text
        assert "Content-Security-Policy" in answer.headers and answer.headers["X-Content-Type-Options"] == "nosniff"
    # Without the token nothing is done and nothing shown.
    assert answer.status_code in (400, 401, 404, 405, 308, 413, 421), (answer.status_code, wanted)


#: Any characters, and halves of some, which JSON can carry.
TEXT = st.text(max_size=12) | PIECES | st.sampled_from(["\ud800", "x\udfff", "\ud83d\ude00\udfff"])
#: Mostly right, or nothing beyond the checks would be reached.
LENGTH = st.sampled_from(["1h", "4h", "7d", "365d", "", "400d"]) | st.just("1h") | st.just("4h") | TEXT
FORM = st.fixed_dictionaries({"for": LENGTH, "reason": TEXT})
MATCHER = st.builds("{}{}".format, st.sampled_from(["server=", "alertname!=", "team=", "server=~", ""]), TEXT)
MATCHERS = st.lists(MATCHER, min_size=1, max_size=2)
SCOPE = st.sampled_from(["*", "group:chat", "server:chat-1"]) | TEXT
ACTS = (
    st.tuples(st.just("/silences"), FORM, st.fixed_dictionaries({"matchers": MATCHERS}))
    | st.tuples(st.just("/pauses"), FORM, st.fixed_dictionaries({"scope": SCOPE}))
    | st.tuples(st.just("/alerts/{alert}/silence"), FORM, st.just({}))
)


@pytest.fixture(scope="module")
def acting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site on a real file, on which whoever has the token may act."""
    folder = tmp_path_factory.mktemp("acting")
    store = open_store(f"sqlite:///{folder / 'local.db'}")
    store.upgrade()
    write_story(store, CLOCK.now())
    site = Site(store, folder, token=SECRET)
    site.web.environ_base["HTTP_AUTHORIZATION"] = "Basic " + b64encode(f"me:{SECRET}".encode()).decode()
    yield site
    store.close()


@settings(FAST, max_examples=80)
@given(act=ACTS, as_json=st.sampled_from([True, True, False]))
def test_whatever_is_asked_for_is_done_or_refused_and_every_page_shows_it(
    acting: Site, act: tuple[str, dict[str, Any], dict[str, Any]], as_json: bool
) -> None:
    path, form, more = act
    wanted = path.format(alert=acting.alert)
    if as_json:
        answer = acting.web.post(f"/api/v1{wanted}", json=form | more, headers={"Authorization": f"Bearer {SECRET}"})
        assert answer.status_code in (200, 201, 400, 404), answer.get_data(as_text=True)
    else:
        flat = {key: "\n".join(value) if isinstance(value, list) else value for key, value in (form | more).items()}
        # What a browser sends is UTF-8.
        sent = {key: value.encode(errors="replace").decode() for key, value in flat.items()}
        answer = acting.post(wanted, **sent)
        assert answer.status_code in (303, 400, 404), answer.get_data(as_text=True)
    for shown in ("/", "/silences", "/activity", "/alerts/{alert}", "/api/v1/silences", "/api/v1/activity"):
        acting.text(shown)
