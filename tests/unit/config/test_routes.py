"""Receivers and routes in a configuration: what goes where, and each mistake by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.app.receivers import make_alertmanagers, make_receivers, make_router
from monitor.clock import SystemClock
from monitor.config.load import load
from monitor.errors import ConfigError
from monitor.telemetry import Telemetry
from tests.unit.config.test_load import problems, write

BOT = "slack: {bot_token: xoxb-1, channel: C0ONCALL1}\n"
HOOK = "webhooks: [{name: pager, url: 'https://x.example/s3cret', secret: 0123456789abcdef}]\n"
AM = "alertmanager: {urls: ['http://127.0.0.1:9093']}\n"


def made(tmp_path: Path, text: str) -> tuple[list[str], bool]:
    """Names of the receivers, and whether Alertmanager is shown alerts."""
    config = load(write(tmp_path, text), {})
    router = make_router(config)
    shown = make_alertmanagers(config, router, SystemClock(), Telemetry())
    return [receiver.name for receiver in make_receivers(config, router, SystemClock())], shown is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (["console"], False)),
        (BOT, (["slack", "console"], False)),
        ("slack: {webhook_url: 'https://hooks.slack.com/services/a'}", (["slack", "console"], False)),
        (BOT + HOOK + AM, (["slack", "pager", "console"], True)),
        (AM, (["console"], True)),
        (BOT + "notify: {routes: [{match: [kind=report], to: ['slack:#reports', 'slack:#boss']}]}",
         (["slack", "slack:#reports", "slack:#boss", "console"], False)),
        # What every notice is led past needs no thread.
        (BOT + HOOK + "notify: {routes: [{to: [pager]}]}", (["slack", "pager", "console"], False)),
    ],
)
def test_there_is_a_receiver_for_whatever_a_route_names(
    tmp_path: Path, text: str, expected: tuple[list[str], bool]
) -> None:
    assert made(tmp_path, text) == expected


def test_without_a_route_everything_goes_to_every_receiver(tmp_path: Path) -> None:
    router = make_router(load(write(tmp_path, BOT + HOOK + AM), {}))
    assert router.place({"severity": "page"}) == ("slack", "pager", "alertmanager")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOT + "notify: {routes: [{to: [slakc]}]}",
         "notify.routes[0].to: found 'slakc', expected one of slack, console; did you mean slack?"),
        ("slack: {webhook_url: 'https://x/y'}\nnotify: {routes: [{to: ['slack:#a']}]}",
         "expected a bot token in `slack` for channels by name: a webhook has one channel of its own"),
        (BOT + "notify: {routes: [{to: ['slack:']}]}", "expected a channel after `slack:`"),
        ("notify: {routes: [{to: [alertmanager]}]}", "expected one of console"),
        (BOT + "notify: {routes: [{to: [slack]}, {match: [kind=report], to: [console]}]}",
         "notify.routes[0].match: found nothing, which fits everything, expected matchers, or to be the last route"),
        (BOT + "notify: {routes: [{match: ['severity page'], to: [slack]}]}", "expected a matcher such as"),
        (BOT + "notify: {routes: [{match: ['server=~\"(\"'], to: [slack]}]}", "a regular expression that RE2 can read"),
        (BOT + AM + "notify: {fallback: alertmanager}", "notify.fallback: found 'alertmanager', expected one of slack"),
        (HOOK.replace("pager", "slack"), "expected a name other than slack, console, alertmanager"),
        (HOOK.replace("}]", "}, {name: pager, url: 'https://y', secret: 0123456789abcdef}]"),
         "webhooks: pager: found 2 entries of that name"),
        (HOOK.replace("0123456789abcdef", "short"),
         "webhooks[0].secret: found <secret>, expected a secret of at least 16 bytes"),
        (HOOK.replace("0123456789abcdef", "whsec_*"), "expected base64 after `whsec_`"),
        (HOOK.replace("https:", "ftp:"), "webhooks[0].url: found <secret>, expected a URL that begins with"),
        ("webhooks: [{name: pager, secret: 0123456789abcdef}]", "exactly one of url and url_file"),
        ("alertmanager: {urls: []}", "alertmanager.urls"),
        (BOT.replace("}", ", app_token: xapp-1}"), "app_token(_file) and users together"),
        (BOT.replace("}", ", users: [U0ANN]}"), "app_token(_file) and users together"),
        (BOT.replace("}", ", app_token: xapp-1, users: [ann]}"), "ids of users such as U0123ABC, not 'ann'"),
        ("slack: {webhook_url: 'https://x/y', app_token: xapp-1, users: [U0ANN]}", "a bot token beside the app token"),
        (AM.replace("}", ", username: u, bearer_token: t}"), "either a bearer token or a user and password"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    found = problems(tmp_path, text)
    assert any(said in problem for problem in found), found
    assert not any("s3cret" in problem or "short" in problem for problem in found)


def test_the_key_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    text = f"webhooks: [{{name: pager, url: 'https://x.example', secret_file: {tmp_path}/key}}]"
    assert made(tmp_path, text)[0] == ["pager", "console"]
    (tmp_path / "key").write_text("short\n")
    assert "at least 16 bytes" in problems(tmp_path, text)[0]


def test_a_contradiction_names_the_line_of_its_setting(tmp_path: Path) -> None:
    path = tmp_path / "acceptd.yaml"
    path.write_text(
        "servers:\n"
        "  - {name: a, url: 'http://127.0.0.1:1'}\n"
        "  - {name: a, url: 'http://127.0.0.1:2'}\n"
        "webhooks:\n"
        "  - {name: w, url: 'http://x', secret_file: /no/such/file}\n"
        "notify:\n"
        "  routes:\n"
        "    - to: [slakc]\n"
        "  fallback: nobody\n"
    )
    with pytest.raises(ConfigError) as error:
        load(path, {})
    said = {problem.path: problem.file.removeprefix(str(path)) for problem in error.value.problems}
    assert said == {
        "servers: a": ":2:3", "notify.routes[0].to": ":8:11", "notify.fallback": ":9:13",
        "webhooks[0].secret_file": ":5:45",
    }  # fmt: skip


def test_a_contradiction_of_the_environment_has_no_line() -> None:
    with pytest.raises(ConfigError) as error:
        load(None, {"ACCEPTD_NOTIFY__FALLBACK": "nobody"})
    assert [problem.file for problem in error.value.problems] == ["environment"]
