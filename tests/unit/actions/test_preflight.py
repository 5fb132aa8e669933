"""What is looked at before anything is touched: a check that fails keeps a server from being restarted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.actions.inspection import Inspection
from monitor.actions.preflight import preflight
from monitor.actions.room import draft_place, gpu_memory, host_memory_check, verify_step
from monitor.advise.issues import load_issues
from monitor.advise.shapes import ModelShape
from monitor.drivers.launcher import CommandLauncher
from monitor.drivers.protocol import Check, Command
from monitor.errors import ActionError, LaunchError
from monitor.launch import parse_command
from monitor.model.decision import Reason
from monitor.model.life import Setting
from monitor.model.rollout import ChangeState, Outcome, RolloutState
from monitor.model.server import Engine
from monitor.shipped import rules_folder
from monitor.targets.gpus import Gpu
from monitor.targets.host_memory import HostMemory, Taken
from monitor.targets.pairs import target_of
from tests.fakes.fake_world import GROUP, World

GIB = 1024.0**3
#: Llama-3.1-8B and a draft of a billion, as their configurations say.
TARGET = ModelShape(name="t", vocabulary=128_256, parameters=8.03e9, layers=32, kv_heads=8, head_dim=128)
DRAFT = ModelShape(name="d", vocabulary=128_256, parameters=1.24e9, layers=16, kv_heads=8, head_dim=64)
LINE = ["vllm", "serve", "t", "--max-num-seqs", "256", "--speculative-config"]
DRAFTING = json.dumps({"method": "draft_model", "model": "d", "num_speculative_tokens": 3})
COMMAND = parse_command(Engine.VLLM, [*LINE, DRAFTING])


def at(tokens: int) -> Setting:
    return Setting(method="draft_model", num_speculative_tokens=tokens, draft_model="d")


class TestGpuMemory:
    def of(self, gib: float, to: int = 8, target: ModelShape | None = TARGET) -> Check:
        return gpu_memory(COMMAND, at(3), at(to), target, DRAFT, Gpu("L4", gib * GIB, 0.0))

    def test_what_fits_says_what_is_left_and_what_the_wider_step_takes(self) -> None:
        found = self.of(48)
        assert found.ok is True and "GB left for" in found.sentence
        # 5 more tokens x 256 requests x 128,256 logits x 4 bytes are 0.66 GB of 26.4.
        assert "(-2.5% of context against now)" in found.sentence

    def test_what_fits_no_more_with_the_wider_step_fails(self) -> None:
        found = self.of(22.2, to=15)
        assert found.ok is False and "leave no room for a KV cache" in found.sentence

    def test_an_estimate_that_what_runs_refutes_is_not_held_against_it(self) -> None:
        found = self.of(16)
        assert found.ok is None and "not even what runs would fit" in found.sentence

    def test_unknown_models_and_gpus_are_not_told(self) -> None:
        assert self.of(48, target=None).ok is None
        assert gpu_memory(COMMAND, at(3), at(4), TARGET, DRAFT, None).ok is None
        unknown = gpu_memory(COMMAND, at(3), at(4), ModelShape(name="t"), DRAFT, Gpu("L4", 48 * GIB, 0.0))
        assert (unknown.ok, unknown.sentence.startswith("not known: the size of t")) == (None, True)


class TestOtherRoom:
    def test_a_step_that_cannot_hold_all_drafts_is_told(self) -> None:
        for budget, ok in (("2048", True), ("1024", None)):
            line = [*LINE, DRAFTING, "--max-num-batched-tokens", budget]
            found = verify_step(parse_command(Engine.VLLM, line), at(4))
            assert found is not None and found.ok is ok and "256 requests x 5 tokens" in found.sentence
        assert verify_step(COMMAND, at(4)) is None

    def test_a_host_that_could_not_hold_the_server_again_fails(self) -> None:
        host = HostMemory(available_bytes=0.5 * GIB, swap_bytes=8 * GIB, swap_free_bytes=GIB)
        found = host_memory_check(host, Taken(10 * GIB, 0.0))
        assert found.ok is False and "might not come up again" in found.sentence
        assert host_memory_check(replace(host, available_bytes=2 * GIB), Taken(10 * GIB, 0.0)).ok is True

    def test_a_server_that_is_swapped_out_is_told(self) -> None:
        host = HostMemory(available_bytes=20 * GIB, swap_bytes=8 * GIB, swap_free_bytes=GIB)
        found = host_memory_check(host, Taken(10 * GIB, 2 * GIB))
        assert found.ok is None and "2.0 GiB of the server are swapped out" in found.sentence
        assert host_memory_check(host, None).ok is None

    def test_a_draft_on_the_cpu_is_told(self) -> None:
        line = ["llama-server", "-m", "t.gguf", "-md", "d.gguf", "--spec-draft-n-max", "4"]
        for layers, told in (("0", True), ("99", False)):
            found = draft_place(parse_command(Engine.LLAMACPP, [*line, "-ngld", layers]))
            assert (found is not None) is told
        assert draft_place(parse_command(Engine.LLAMACPP, line)) is None


class TestPairs:
    """Files of the models, through the command line to the checks of the release."""

    def launcher(
        self, folder: Path, target: dict[str, object], draft: dict[str, object] | None, method: str
    ) -> CommandLauncher:
        speculation: dict[str, object] = {"method": method, "num_speculative_tokens": 2}
        for name, config in (("target", target), ("draft", draft)):
            if config is not None:
                (folder / name).mkdir()
                (folder / name / "config.json").write_text(json.dumps(config))
        if draft is not None:
            speculation["model"] = str(folder / "draft")
        line = ["vllm", "serve", str(folder / "target"), "--speculative-config", json.dumps(speculation)]
        return CommandLauncher(
            Engine.VLLM, line, version=lambda: "0.20.0", target=lambda command: target_of(command, {})
        )

    def test_vocabularies_that_differ_are_refused(self, tmp_path: Path) -> None:
        launcher = self.launcher(tmp_path, {"vocab_size": 152_064}, {"vocab_size": 151_936}, "draft_model")
        with pytest.raises(LaunchError, match="151936 entries and the target's 152064"):
            launcher.render(replace(launcher.base_setting, num_speculative_tokens=3))

    def test_the_same_vocabulary_is_taken_also_below_a_text_config(self, tmp_path: Path) -> None:
        nested = {"text_config": {"vocab_size": 100}, "model_type": "vision"}
        launcher = self.launcher(tmp_path, nested, {"vocab_size": 100}, "draft_model")
        assert launcher.render(replace(launcher.base_setting, num_speculative_tokens=3)).argv

    def test_counts_beyond_the_heads_must_be_multiples_of_them(self, tmp_path: Path) -> None:
        launcher = self.launcher(tmp_path, {"vocab_size": 9, "num_nextn_predict_layers": 2}, None, "mtp")
        with pytest.raises(LaunchError, match=r"expected up to n_predict of the draft \(2\) or a multiple"):
            launcher.render(replace(launcher.base_setting, num_speculative_tokens=3))
        assert launcher.render(replace(launcher.base_setting, num_speculative_tokens=4)).argv

    def test_files_that_say_nothing_stop_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "target").mkdir()
        (tmp_path / "target/config.json").write_text("no json")
        line = ["vllm", "serve", str(tmp_path / "target"), "--speculative-config", DRAFTING]
        target = target_of(parse_command(Engine.VLLM, line), {})
        assert (target.n_predict, target.vocab_size, target.draft_vocab_size) == (None, None, None)


class TestInspection:
    def inspect(
        self, line: list[str], to: int = 4, *, version: str = "0.20.0",
        ask: Callable[[Command], Check | None] = lambda command: None,
    ) -> dict[str, Check]:
        path = rules_folder() / "known_issues.yaml"
        launcher = CommandLauncher(Engine.VLLM, line, version=lambda: version)
        inspection = Inspection(
            launcher, issues=load_issues(path.read_text(), str(path)), shape_of={"t": TARGET, "d": DRAFT}.get,
            gpus=lambda: (Gpu("H100", 80 * GIB, 0.0), Gpu("L4", 48 * GIB, 0.0)),
            host=lambda: HostMemory(20 * GIB, 0.0, 0.0), taken_by=lambda pid: Taken(GIB, 0.0), ask_engine=ask,
        )  # fmt: skip
        return {check.name: check for check in inspection.checks(at(3), at(to), 7)}

    def test_it_looks_at_memory_of_gpu_and_host_and_asks_the_engine_of_the_new_command(self) -> None:
        asked: list[Command] = []

        def ask(command: Command) -> Check:
            asked.append(command)
            return Check("the engine's own check", True, "taken")

        found = self.inspect([*LINE, DRAFTING], ask=ask)
        assert [found[name].ok for name in ("GPU memory", "host memory", "the engine's own check")] == [True] * 3
        assert '"num_speculative_tokens":4' in asked[0].argv[-1]

    def test_known_issues_are_told_with_their_link_and_refuse_nothing(self) -> None:
        ngram = json.dumps({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4})
        launcher_line = [*LINE[:3], "--enable-lora", "-pp", "2", "--speculative-config", ngram]
        path = rules_folder() / "known_issues.yaml"
        launcher = CommandLauncher(Engine.VLLM, launcher_line, version=lambda: "0.20.0")
        inspection = Inspection(
            launcher, issues=load_issues(path.read_text(), str(path)), shape_of=lambda name: None, gpus=lambda: (),
            host=lambda: None, taken_by=lambda pid: None, ask_engine=lambda command: None,
        )  # fmt: skip
        base = launcher.base_setting
        found = {c.name: c for c in inspection.checks(base, replace(base, num_speculative_tokens=4), None)}
        for name in ("known issue lora-ngram", "known issue pipeline-parallel"):
            assert found[name].ok is None and "https://" in found[name].sentence
        assert "known issue no-plain-draft" not in found
        assert found["host memory"].ok is None

    def test_a_part_of_a_larger_engine_fails(self) -> None:
        found = self.inspect([*LINE[:3], "--nnodes", "2", *LINE[3:], DRAFTING])
        assert found["stands alone"].ok is False
        assert "one of several nodes (--nnodes 2)" in found["stands alone"].sentence
        assert "the engine's own check" not in found


class TestTheWay:
    """Checks on the way of a change: refused when asked for, looked at again before the server is taken out."""

    class Eyes:
        def __init__(self, *found: Check) -> None:
            self.found = found
            self.asked: list[tuple[int | None, int | None]] = []

        def checks(self, current: Setting, proposed: Setting, pid: int | None) -> tuple[Check, ...]:
            self.asked.append((proposed.num_speculative_tokens, pid))
            return self.found

    def world(self, *found: Check) -> tuple[World, Eyes]:
        world, eyes = World(), self.Eyes(*found)
        world.inspectors = {world.server.name: eyes}
        world.new_daemon()
        return world, eyes

    BAD = Check("host memory", False, "too little")
    GOOD = Check("host memory", True, "enough")

    def test_a_failing_check_refuses_the_change_with_its_reason(self) -> None:
        world, _ = self.world(self.BAD)
        with pytest.raises(ActionError, match="s1: host memory: too little") as caught:
            world.begin(3, by_operator=True)
        assert (caught.value.reason, caught.value.retryable) == ("preflight", False)

    def test_what_the_driver_misses_refuses_it_too_also_a_restart(self) -> None:
        world, _ = self.world()
        world.drivers[0].found = (Check("unit", False, "vllm@s1.service does not exist"),)
        with pytest.raises(ActionError, match=r"unit: vllm@s1\.service does not exist"):
            world.orders.restart(
                world.server.name, "x", world.clock.now(), requested_by="a", reason=Reason.REQUESTED_BY_OPERATOR
            )

    def test_one_that_fails_only_later_is_seen_before_the_server_is_taken_out(self) -> None:
        world, eyes = self.world(self.GOOD)
        world.gate.reason = "an objective burns"
        world.begin(3)
        world.run(seconds=60)
        eyes.found = (self.BAD,)
        world.gate.reason = None
        assert world.run()
        assert (world.change().outcome, world.server.stops) == (Outcome.PREFLIGHT_FAILED, [])
        assert world.balancers[0].told == []

    def test_an_answer_that_takes_its_time_is_waited_for(self) -> None:
        awaited = Check("the engine's own check", None, "vLLM is asked", is_awaited=True)
        world, eyes = self.world(self.GOOD, awaited)
        world.begin(3)
        world.run(seconds=60)
        assert (world.change().state, world.change().sentence) == (ChangeState.PLANNED, "s1 waits: vLLM is asked")
        eyes.found = (self.GOOD, Check("the engine's own check", True, "taken"))
        assert world.run()
        assert world.rollout().state is RolloutState.PROMOTED

    def test_while_a_change_waits_the_host_is_looked_at_now_and_then(self) -> None:
        world, eyes = self.world(self.GOOD)
        world.gate.reason = "an objective burns"
        world.begin(3)
        world.run(seconds=600)
        assert 19 <= len(eyes.asked) <= 23
        assert eyes.asked[-1] == (3, world.server.status().pid)

    def test_the_way_back_is_held_up_by_no_estimate(self) -> None:
        world, eyes = self.world(self.GOOD)
        world.begin(3)
        assert world.run()
        eyes.found = (self.BAD,)
        world.clock.advance(3600)
        world.orders.roll_back(GROUP, "ann", world.clock.now())
        assert world.run()
        assert world.server.tokens == 2

    def test_the_plan_shows_every_check(self) -> None:
        world, _ = self.world(self.BAD)
        shown = {check.name: check.ok for check in preflight(world.decision(3), world.fleet.managed[world.server.name])}
        assert shown == {"process": True, "command": True, "base command": True, "page": True, "host memory": False}
