"""Taking over units and containers: what is written, and what is refused with what to do instead."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from monitor.config.servers import Driver
from monitor.drivers.systemctl import UnitCommandLine, read_state
from monitor.drivers.unit_command import is_edited
from monitor.errors import ActionError
from monitor.launch.unit_text import read_env
from monitor.model.server import Engine
from monitor.units.adopt import Adoption, adopt_plan, drop_in_path, engine_of, release_plan
from monitor.units.container import adopt_container
from monitor.units.permission import permitted
from monitor.units.plan import Put

SPECULATION = '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}'
SERVE = ("/opt/vllm/bin/vllm", "serve", "org/m", "--port", "8001")
LOADED = {"LoadState": "loaded", "FragmentPath": "/etc/systemd/system/x.service", "KillMode": "control-group"}
UNIT = "[Service]\nExecStart=whatever\n"


def line(
    *items: str, prefixes: tuple[str, ...] = (), environment: tuple[str, ...] = (),
    files: tuple[tuple[str, bool], ...] = (), program: str | None = None, count: int = 1,
) -> UnitCommandLine:  # fmt: skip
    return UnitCommandLine(program or items[0], items, prefixes, environment, files, count)


def adopt(root: Path, given: UnitCommandLine, **state: str) -> Adoption:
    return adopt_plan("x.service", read_state(LOADED | state), given, [UNIT], root=root)


def drop_in(adoption: Adoption) -> str:
    [step] = [step for step in adoption.plan.steps if isinstance(step, Put) and step.path == drop_in_path("x.service")]
    return step.text


def test_the_flags_become_the_value_of_the_variable_and_the_rest_stays(tmp_path: Path) -> None:
    adoption = adopt(tmp_path, line(*SERVE, "--speculative-config", SPECULATION, "--name", "100% $$ ${X}"))
    assert (adoption.engine, adoption.command.port) == (Engine.VLLM, 8001)
    lines = drop_in(adoption).splitlines()
    assert lines[-2:] == [
        "ExecStart=",
        'ExecStart=/opt/vllm/bin/vllm serve org/m --port 8001 --name "100%% $$ ${X}" $ACCEPTD_SPECULATION',
    ]
    [given] = [text for text in lines if text.startswith("Environment=")]
    assert json.loads(given.partition("--speculative-config '")[2].rstrip("'\"").replace('\\"', '"')) == json.loads(
        SPECULATION
    )
    assert "EnvironmentFile=-/var/lib/acceptd/launch/%n.env" in lines
    assert not is_edited(drop_in(adoption), [UNIT]) and is_edited(drop_in(adoption), [UNIT.replace("whatever", "x")])


def test_prefixes_and_another_name_of_the_program_stay(tmp_path: Path) -> None:
    text = drop_in(adopt(tmp_path, line(*SERVE, prefixes=("ignore-failure",))))
    assert "ExecStart=-/opt/vllm/bin/vllm serve" in text
    by_name = drop_in(adopt(tmp_path, line("vllm", *SERVE[1:], program="/opt/vllm/bin/vllm")))
    assert "ExecStart=vllm serve" in by_name
    renamed = line("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m", program="/usr/bin/python3.11")
    assert "ExecStart=@/usr/bin/python3.11 python3 -m vllm" in drop_in(adopt(tmp_path, renamed))


def test_a_unit_that_passes_the_variable_needs_only_the_leave(tmp_path: Path) -> None:
    launch = "/var/lib/acceptd/launch/x.service.env"
    ready = adopt(tmp_path, line("vllm", "serve", "m", "$ACCEPTD_SPECULATION", files=((launch, True),)))
    ready.plan.carry_out(lambda argv: None)
    assert permitted(tmp_path) == {"x.service"}
    assert not (tmp_path / "etc/systemd/system/x.service.d").exists()
    only_reading = adopt(tmp_path, line("vllm", "serve", "m", "$ACCEPTD_SPECULATION"))
    assert "ExecStart=" not in drop_in(only_reading) and "EnvironmentFile=-" in drop_in(only_reading)


def test_a_release_takes_drop_in_launch_file_and_leave_back(tmp_path: Path) -> None:
    adopt(tmp_path, line(*SERVE)).plan.carry_out(lambda argv: None)
    launch = tmp_path / "var/lib/acceptd/launch/x.service.env"
    launch.parent.mkdir(parents=True)
    launch.write_text("")
    release_plan("x.service", tmp_path).carry_out(lambda argv: None)
    assert not launch.exists() and not (tmp_path / "etc/systemd/system/x.service.d").exists()
    assert permitted(tmp_path) == frozenset()
    assert release_plan("x.service", tmp_path).pending() == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (line("/bin/sh", "-c", "exec vllm serve m"), r"starts `/bin/sh -c exec vllm serve m …`, which is no server"),
        (line("/usr/local/bin/start-vllm.sh"), r"not a script that starts it"),
        (line(*SERVE, count=2), "has 2 commands"),
        (line(*SERVE, prefixes=("no-env-expand",)), "prefix for no-env-expand: it passes no variables"),
        (line(*SERVE, "--node-rank", "1"), r"one of several nodes \(--node-rank 1\): it is watched"),
        (line(*SERVE, "--speculative-config", "{"), "cannot be read for sure"),
        (line(*SERVE, "--speculative-config", "${SPEC}", environment=(f"SPEC={SPECULATION}",)), r"variable \(\$SPEC\)"),
    ],
)
def test_what_is_not_understood_to_the_last_word_is_refused(tmp_path: Path, given: UnitCommandLine, said: str) -> None:
    with pytest.raises(ActionError, match=said):
        adopt(tmp_path, given)


def test_flags_in_a_variable_are_refused_with_the_line_to_write_instead(tmp_path: Path) -> None:
    file = tmp_path / "etc/default/vllm"
    file.parent.mkdir(parents=True)
    file.write_text("ARGS=--port 8001 --speculative-model [ngram] --num-speculative-tokens 3\n")
    with pytest.raises(ActionError, match=r"in a variable \(\$ARGS\)") as caught:
        adopt(tmp_path, line("vllm", "serve", "m", "$ARGS", files=(("/etc/default/vllm", False),)))
    written = str(caught.value).partition("set ")[2].partition(" beside the others")[0]
    assert read_env(written) == {"ACCEPTD_SPECULATION": "--speculative-model '[ngram]' --num-speculative-tokens 3"}


def test_a_unit_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ActionError, match=r"no usable unit x\.service \(not-found\)"):
        adopt(tmp_path, line(*SERVE), LoadState="not-found")


def test_units_that_leave_engines_behind_are_told_so(tmp_path: Path) -> None:
    adoption = adopt(tmp_path, line(*SERVE), KillMode="process")
    assert any("KillMode=mixed leaves none" in remark for remark in adoption.plan.remarks)
    assert any("no speculation" in remark for remark in adoption.plan.remarks)


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("vllm serve m", Engine.VLLM),
        ("numactl -N 0 python3 -m sglang.launch_server --model-path m", Engine.SGLANG),
        ("/usr/bin/env llama-server -m x.gguf", Engine.LLAMACPP),
        ("docker run vllm/vllm-openai:latest m", Engine.VLLM),
        ("podman run ghcr.io/ggml-org/llama.cpp:server-cuda -m x.gguf", Engine.LLAMACPP),
        ("docker run lmsysorg/sglang python3 -m sglang.launch_server", Engine.SGLANG),
        ("docker run mine/image m", None),
        ("sleep 5", None),
    ],
)
def test_the_engine_is_known_by_program_or_image(command: str, engine: Engine | None) -> None:
    assert engine_of(shlex.split(command)) is engine


class TestContainers:
    RUN = (
        "docker run --rm --name chat -p 8001:8001 vllm/vllm-openai:v0.32.0 m --port 8001"
        f" --speculative-config '{SPECULATION}'"
    )

    def test_its_start_becomes_settings_of_the_command_driver(self) -> None:
        adoption = adopt_container(shlex.split(self.RUN))
        assert (adoption.name, adoption.engine, adoption.command.port) == ("chat", Engine.VLLM, 8001)
        assert adoption.driver["start"] == shlex.split(
            "docker run --detach --rm --name chat -p 8001:8001 vllm/vllm-openai:v0.32.0 {command}"
        )
        assert adoption.driver["command"] == ["m", "--port", "8001", "--speculative-config", SPECULATION]
        assert adoption.driver["stop"] == ["docker", "stop", "--time", "120", "chat"]

    def test_the_settings_are_valid(self) -> None:
        driver = Driver.model_validate(adopt_container(shlex.split(self.RUN)).driver)
        assert driver.start.count("{command}") == 1 and not driver.starts_now

    @pytest.mark.parametrize("flag", ["-d", "-dit", "--detach"])
    def test_one_that_is_detached_already_stays_as_it_is(self, flag: str) -> None:
        start = adopt_container(shlex.split(self.RUN.replace("--rm", f"--rm {flag}"))).driver["start"]
        assert start.count("--detach") == (flag == "--detach")

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [("--name chat ", "", "needs a name"), ("vllm/vllm-openai:v0.32.0", "mine", "name its engine with --engine"),
         ("docker run", "docker exec", "starts no container"), ("--port", "--node-rank", "one of several nodes")],
    )  # fmt: skip
    def test_what_cannot_be_taken_over_is_refused(self, old: str, new: str, said: str) -> None:
        with pytest.raises(ActionError, match=said):
            adopt_container(shlex.split(self.RUN.replace(old, new)))

    def test_what_would_get_in_the_way_is_said(self) -> None:
        remarks = "\n".join(adopt_container(shlex.split(self.RUN.replace("--rm", "--restart always"))).remarks)
        assert "keeps its name" in remarks and "take it out" in remarks
