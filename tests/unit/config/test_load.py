"""Configurations: what is accepted, and that each mistake is named with its path, its value and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.config.load import load, loaded, secret
from monitor.config.model import Config
from monitor.config.scalars import seconds
from monitor.errors import ConfigError
from monitor.model.server import Mode


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "acceptd.yaml"
    path.write_text(text)
    return path


def problems(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(write(tmp_path, text), environ or {})
    return [str(problem) for problem in error.value.problems]


SERVER = "servers: [{name: chat-1, url: 'http://127.0.0.1:8000'}]\n"


def test_nothing_is_needed(tmp_path: Path) -> None:
    assert load(None, {}) == load(write(tmp_path, ""), {}) == Config.model_validate({})


def test_a_whole_configuration(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("xoxb-1\n")
    config = load(
        write(
            tmp_path,
            f"""
            mode: auto
            scrape: {{interval: 5s, timeout: 1500ms}}
            servers:
              - {{name: chat-1, url: 'http://127.0.0.1:8000/', group: chat}}
            groups:
              - {{name: chat, mode: approve, limits: {{max_speculative_tokens: 4, cooldown: 1h30m}}}}
            slack: {{bot_token_file: {tmp_path}/token, channel: '#oncall'}}
            report: {{day: mon, at: 10:30, timezone: Europe/Berlin}}
            """,
        ),
        {},
    )
    assert config.mode is Mode.AUTO
    assert (config.scrape.interval, config.scrape.timeout) == (5.0, 1.5)
    assert config.servers[0].url == "http://127.0.0.1:8000"
    assert config.groups[0].limits.cooldown == 5400.0
    assert config.slack and secret(config.slack, "bot_token") == "xoxb-1"
    assert (config.report.at.hour, config.report.at.minute) == (10, 30)


def driver(text: str) -> str:
    return f"servers: [{{name: a, url: 'http://h', driver: {{{text}}}}}]"


COMMANDS = driver("kind: command, command: [a], start: [sh, a, '{command}'], stop: [sh], status: [sh]")


@pytest.mark.parametrize(
    ("mistake", "text", "message"),
    [
        (
            "unknown key with a near one",
            "servers: [{name: a, url: 'http://h', grup: x}]",
            "servers[0].grup: found an unknown key",
        ),
        ("duration without unit", "scrape: {interval: 15}", "scrape.interval: found 15, expected a duration such"),
        ("timeout above interval", "scrape: {timeout: 20s}", "expected timeout (20s) not above interval (15s)"),
        ("wrong scheme", "servers: [{name: a, url: 'ftp://h'}]", "servers[0].url: found 'ftp://h', expected a URL"),
        ("bad name", "servers: [{name: 'a b', url: 'http://h'}]", "servers[0].name: found 'a b', expected text that"),
        ("missing url", "servers: [{name: a}]", "servers[0].url: found nothing, expected a value"),
        ("two of one name", SERVER.replace("]", ", {name: chat-1, url: 'http://h'}]"), "2 entries of that name"),
        ("two of one page", SERVER.replace("]", ", {name: b, url: 'http://127.0.0.1:8000'}]"), "same metrics URL"),
        ("group of nobody", SERVER + "groups: [{name: chat}]", "groups[0].name: found 'chat', expected a group"),
        ("limits crossed", SERVER + "groups: [{name: chat-1, limits: {min_speculative_tokens: 9}}]", "not above"),
        ("unknown zone", "report: {timezone: Berlin}", "report.timezone: found 'Berlin', expected a time zone"),
        ("time out of range", "report: {at: 24:30}", "report.at: found '24:30', expected a time of day"),
        ("open page without token", "web: {listen: '0.0.0.0:9747'}", "expected a token or token_file"),
        ("two ways to Slack", "slack: {bot_token: x, channel: c, webhook_url: y}", "exactly one of bot_token(_file)"),
        ("bot without channel", "slack: {bot_token: x}", "a channel for the bot"),
        ("missing secret file", "web: {token_file: /nowhere/x}", "web.token_file: found '/nowhere/x' (No such file"),
        ("missing rules file", "rules: {files: [/nowhere/r.yaml]}", "rules.files[0]: found '/nowhere/r.yaml'"),
        ("not a mapping", "[1]", "found a list, expected a mapping of settings"),
        ("not YAML", "a: [", "expected valid YAML"),
        ("a key twice", "mode: auto\nmode: observe", "expected one mode (the first is on line 1)"),
        ("a wrong mode", "mode: automatic", "mode: found 'automatic', expected 'observe', 'recommend', 'approve' or"),
        (
            "program that is not there",
            "servers: [{name: a, url: 'http://h', driver: {kind: process, command: [/nowhere/vllm]}}]",
            "servers[0].driver.command[0]: found '/nowhere/vllm', expected an existing program",
        ),
        ("a unit driver without its unit", driver("kind: systemd"), "expected with kind systemd: unit too"),
        ("a unit's command twice", driver("kind: systemd, unit: x, command: [a]"), "with kind systemd: no command"),
        ("a template", driver("kind: systemd, unit: 'vllm@'"), "expected the name of one systemd service, such as"),
        ("commands left out", driver("kind: command, command: [a]"), "with kind command: start, stop, status too"),
        ("a start that takes no command", COMMANDS.replace("'{command}'", "x"), "expected `{command}` as one item of"),
        ("a command that is not there", COMMANDS.replace("[sh, a", "[/no/sh, a"), "driver.start[0]: found '/no/sh'"),
        ("a dry run of nothing", driver("kind: dry_run"), "with kind dry_run: either command or unit"),
        (
            "a unit of two servers",
            "servers: [{name: a, url: 'http://h', driver: {kind: systemd, unit: x}},"
            " {name: b, url: 'http://i', driver: {kind: systemd, unit: x.service}}]",
            "servers: x.service: found 2 servers of that unit, expected one server a unit",
        ),
        (
            "an instance of no store",
            "servers: [{name: a, url: 'http://h', instance: p}]",
            "servers[0].instance: found 'p', expected through: the source that has it",
        ),
        (
            "an instance of two servers",
            "sources: [{name: p, prometheus: {url: 'http://p', selector: '{}'}}]\n"
            "servers: [{name: a, url: 'http://h', through: p, instance: x}, {name: b, url: 'http://i', through: p,"
            " instance: x}]",
            "servers: found 2 servers of instance 'x', expected one server an instance",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else "",
)
def test_a_mistake_is_named(tmp_path: Path, mistake: str, text: str, message: str) -> None:
    assert any(message in problem for problem in problems(tmp_path, text)), problems(tmp_path, text)


def test_every_mistake_is_listed_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, "scrape: {interval: 15}\nmode: x\nservers: [{name: a, url: 'ftp://h', drvier: 1}]")
    assert len(found) == 4
    assert found[0].startswith(f"{tmp_path}/acceptd.yaml:2:7: mode: ")
    assert any("did you mean driver?" in problem for problem in found)


@pytest.mark.parametrize(
    "text",
    [
        "slack: {bot_token: [hunter2], channel: c}",
        "servers: [{name: a, url: 'http://u:hunter2@h'}]",
        "web: {token: {x: hunter2}}",
        "servers: [{name: a, url: 'http://h', auth: {bearer_token: [hunter2]}}]",
        "servers: [{name: a, url: 'http://h?key=hunter2'}]",
        "servers: [{name: a, url: 'http://h', metrics_url: 'http://h:x/m?key=hunter2'}]",
        "sources: [{name: a, prometheus: {url: 'http://h/?key=hunter2', selector: '{}'}}]",
        "sources: [{name: a, prometheus: {url: 'http://h', selector: '{}', headers: {Authorization: [hunter2]}}}]",
        "sources: [{name: a, prometheus: {url: 'http://h', selector: '{}', headers: 'Authorization: Bearer hunter2'}}]",
        "store: {shared: {url: 'postgresql://u:hunter2@h/d'}}",
        "store: {shared: {url: 'postgresql://u@h/d?password=hunter2'}}",
        "store: {shared: {url: 'postgresql://u@h/d?sslmode=require&sslpassword=hunter2'}}",
        "store: {shared: {url: 'http://h/d?x=hunter2'}}",
    ],
)
def test_a_secret_is_not_repeated_in_a_message(tmp_path: Path, text: str) -> None:
    (said,) = problems(tmp_path, text)
    assert "hunter2" not in said


def test_a_page_s_url_may_ask_for_something_and_a_base_url_may_not(tmp_path: Path) -> None:
    text = "servers: [{name: a, url: 'http://h', metrics_url: 'http://h/m?format=prometheus'}]"
    assert load(write(tmp_path, text), {}).servers[0].metrics_url == "http://h/m?format=prometheus"
    (said,) = problems(tmp_path, "servers: [{name: a, url: 'http://h/?x=1'}]")
    assert said.endswith("found 'http://h/?x=<secret>, expected a base URL, with neither ? nor # in it")


def test_a_secret_prints_as_stars(tmp_path: Path) -> None:
    headers = "{Authorization: Bearer hunter2}"
    text = f"sources: [{{name: a, prometheus: {{url: 'http://h', selector: '{{}}', headers: {headers}}}}}]"
    config = load(write(tmp_path, f"slack: {{bot_token: hunter2, channel: c}}\n{text}"), {})
    assert "hunter2" not in repr(config)


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "scrape: {interval: 5s, timeout: 5s}")
    config = load(path, {"ACCEPTD_SCRAPE__INTERVAL": "30s", "ACCEPTD_MODE": "observe", "ACCEPTD_WEB__TOKEN": "123"})
    assert config.scrape.interval == 30.0
    assert config.mode is Mode.OBSERVE
    assert secret(config.web, "token") == "123"


def test_a_wrong_variable_is_a_mistake_too(tmp_path: Path) -> None:
    assert any("scrape.intervall" in p for p in problems(tmp_path, "", {"ACCEPTD_SCRAPE__INTERVALL": "30s"}))


@pytest.mark.parametrize("text", ["", "5", "m5", "5 m", "5x", "-5m", "5m3", "1.5h", None, 5, True])
def test_a_duration_needs_number_and_unit(text: object) -> None:
    with pytest.raises(ValueError, match="a duration such as"):
        seconds(text)


def test_a_driver_of_each_kind_is_taken(tmp_path: Path) -> None:
    kinds = (
        "kind: systemd, unit: vllm@chat", COMMANDS.partition("driver: {")[2][:-3], "kind: process, command: [sh]",
        "kind: dry_run, command: [sh]", "kind: dry_run, unit: x.service",
    )  # fmt: skip
    drivers = [load(write(tmp_path, driver(text)), {}).servers[0].driver for text in kinds]
    assert [one.kind.value for one in drivers if one] == ["systemd", "command", "process", "dry_run", "dry_run"]
    assert drivers[0] is not None and drivers[0].unit == "vllm@chat.service"
    # What systemd and operators start is theirs to start.
    assert [one.starts_now for one in drivers if one] == [False, False, True, False, False]


def test_below_the_service_a_secret_for_root_alone_is_read_from_systemds_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.config.load.CREDENTIALS", tmp_path / "closed")
    config = write(tmp_path, f"web: {{token_file: {tmp_path}/closed/web}}")
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "acceptd_web").write_text("sesame\n")
    with pytest.raises(ConfigError, match="No such file"):
        load(config, {})
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "copies"))
    assert secret(load(config, {}).web, "token") == "sesame"
    # Files elsewhere are what they are.
    assert loaded(tmp_path / "web") == tmp_path / "web"
