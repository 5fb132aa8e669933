"""The systemd files: valid, and in step with the daemon's own times and refusals."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from docs import generate
from monitor.app import daemon
from monitor.config.load import ENV_PREFIX, load
from monitor.config.model import Config
from monitor.config.reference import setting_paths
from monitor.drivers.process import refuse_under_unit
from monitor.drivers.procfs import ProcFs
from monitor.drivers.unit_command import LAUNCH_FILE_ENDING, VARIABLE
from monitor.errors import ActionError
from monitor.launch import parse_command
from monitor.launch.unit_text import expand, read_env
from monitor.model.server import Engine
from monitor.shipped import systemd_folder
from monitor.units.adopt import _GUARD, LAUNCH

FOLDER = systemd_folder()


def unit(name: str = "acceptd.service") -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read(FOLDER / name)
    return parser


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed: the systemd files go unchecked")
        pytest.skip(f"*** {name} is not installed: the systemd files are NOT CHECKED ***")
    return found


def test_the_daemon_is_no_more_exposed_than_the_page_says() -> None:
    command = [tool("systemd-analyze"), "security", "--offline=true", str(FOLDER / "acceptd.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd is older than 250: exposure is NOT CHECKED")
    exposure = re.search(r"exposure level for acceptd\.service: (\S+)", done.stdout)
    said = re.search(r"`systemd-analyze security` says (\S+) at most", (generate.DOCS / "install.md").read_text())
    assert exposure is not None and said is not None, done.stderr
    assert float(exposure[1]) <= float(said[1]), done.stdout


@pytest.mark.parametrize("name", ["acceptd.service", "vllm@.service"])
def test_systemd_takes_the_units(tmp_path: Path, name: str) -> None:
    copy = tmp_path / name.replace("@", "@chat")
    copy.write_text((FOLDER / name).read_text())
    done = subprocess.run([tool("systemd-analyze"), "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_misspelt_unit_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "acceptd.service"
    copy.write_text((FOLDER / "acceptd.service").read_text().replace("WatchdogSec=", "WatchdogSecs="))
    done = subprocess.run([tool("systemd-analyze"), "verify", str(copy)], capture_output=True, text=True, check=False)
    assert "WatchdogSecs" in done.stderr


def test_the_user_is_made_as_the_unit_wants_it() -> None:
    done = subprocess.run(
        [tool("systemd-sysusers"), "--dry-run", str(FOLDER / "acceptd.sysusers")], capture_output=True, text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    name = re.search(r"^u +(\S+)", (FOLDER / "acceptd.sysusers").read_text(), re.MULTILINE)
    assert name is not None
    assert unit()["Service"]["User"] == unit()["Service"]["Group"] == name[1]


class TestInStepWithTheDaemon:
    SERVICE = unit()["Service"]
    DEFAULTS = Config.model_validate({})

    def test_it_runs_the_command_and_speaks_the_protocol(self) -> None:
        assert self.SERVICE["ExecStart"] == "/usr/bin/env acceptd --config /etc/acceptd/acceptd.yaml run"
        assert (self.SERVICE["Type"], self.SERVICE["NotifyAccess"]) == ("notify", "main")

    def test_the_watchdog_waits_as_long_as_the_heart(self) -> None:
        turns = daemon._STILL_TURNS * self.DEFAULTS.rules.interval
        assert float(self.SERVICE["WatchdogSec"]) >= max(daemon._STILL_LEAST, turns)

    def test_stopping_is_given_more_time_than_it_takes(self) -> None:
        loops, receivers, page = 2 * 30, 2 * 15, 5
        bounds = loops + receivers + page + self.DEFAULTS.scrape.timeout + daemon._READ_BACK_ENDS
        assert float(self.SERVICE["TimeoutStopSec"]) > bounds

    def test_wrong_input_is_not_restarted(self) -> None:
        assert self.SERVICE["Restart"] == "on-failure"
        assert self.SERVICE["RestartPreventExitStatus"] == "2"

    def test_the_state_folder_is_the_default_one(self) -> None:
        assert str(self.DEFAULTS.data_dir) == f"/var/lib/{self.SERVICE['StateDirectory']}"

    def test_stopping_it_never_stops_serving(self, tmp_path: Path) -> None:
        assert self.SERVICE["KillMode"] == "process"
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "cgroup").write_text("0::/system.slice/acceptd.service\n")
        with pytest.raises(ActionError, match=r"below acceptd\.service"):
            refuse_under_unit(ProcFs(tmp_path))


class TestServersTemplate:
    """The template serves with or without acceptd, leaves no engine behind, and gives up on what cannot start."""

    TEXT = (FOLDER / "vllm@.service").read_text()
    SERVICE = unit("vllm@.service")["Service"]
    LIMITS = Config.model_validate({"groups": [{"name": "a"}]}).groups[0].limits

    def test_the_operators_file_is_read_first_and_the_launch_file_may_be_missing(self) -> None:
        files = re.findall(r"^EnvironmentFile=(.*)$", self.TEXT, re.MULTILINE)
        launch = f"-{LAUNCH}/%n{LAUNCH_FILE_ENDING}"
        assert files == ["/etc/acceptd/servers/%i.env", launch]
        assert self.SERVICE["ExecStart"].endswith(f" ${VARIABLE}")

    def test_it_drops_a_launch_file_in_the_same_way_as_a_drop_in(self) -> None:
        assert _GUARD.format(folder=LAUNCH) in self.TEXT.splitlines()

    def test_stopping_is_given_more_time_than_a_drain_and_leaves_nothing(self) -> None:
        assert self.SERVICE["TimeoutStopSec"] == "10min"
        assert 600 > self.LIMITS.drain_limit + self.LIMITS.stop_limit
        assert self.SERVICE["KillMode"] == "mixed"

    def test_it_starts_as_long_as_it_takes_and_not_for_ever(self) -> None:
        assert self.SERVICE["Type"] == "exec"
        assert self.SERVICE["Restart"] == "always" and self.SERVICE["RestartPreventExitStatus"] == "2"
        assert unit("vllm@.service")["Unit"]["StartLimitBurst"] == "4"

    def test_its_user_is_made(self) -> None:
        assert re.search(rf"^u +{self.SERVICE['User']} ", (FOLDER / "acceptd.sysusers").read_text(), re.MULTILINE)

    def test_the_example_of_a_command_is_one(self) -> None:
        given = read_env((FOLDER / "server.env").read_text())
        argv = expand(self.SERVICE["ExecStart"].split(), given)
        command = parse_command(Engine.VLLM, argv)
        assert command.problems == () and command.speculation is not None
        assert (command.model, command.speculation.method) == ("Qwen/Qwen3-8B", "eagle3")


def test_the_environment_file_holds_settings_only() -> None:
    text = (FOLDER / "acceptd.env").read_text()
    paths = {ENV_PREFIX + path.upper().replace(".", "__") for path in setting_paths() if "[]" not in path}
    named = re.findall(r"^#(ACCEPTD_\w+)=(.*)$", text, re.MULTILINE)
    assert named and {name for name, _ in named} <= paths
    assert load(None, {name: value for name, value in named if not name.endswith("_FILE")})
