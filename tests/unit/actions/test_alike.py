"""A canary speaks for replicas only; what makes two servers different is named, what does not is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.actions.alike import differences
from monitor.actions.fleet import Managed
from monitor.errors import ActionError
from monitor.model.life import Life, LifeId, StartEvidence
from monitor.model.server import ServerName
from tests.fakes.fake_launcher import FakeLauncher
from tests.fakes.fake_world import World, tokens

BASE = ("vllm", "serve", "tiny", "--max-num-seqs", "128")
ENV = {"VLLM_ATTENTION_BACKEND": "FLASHINFER", "CUDA_VISIBLE_DEVICES": "0", "HF_TOKEN": "hf_0123456789abcdef01"}


def found(
    first: tuple[str, ...] = BASE, other: tuple[str, ...] = BASE, *, env: dict[str, str] | None = None,
    gpus: tuple[str | None, str | None] = (None, None), versions: tuple[str | None, str | None] = (None, None),
) -> tuple[str, ...]:
    world = World(2)
    managed: dict[ServerName, Managed] = {}
    lines, envs = (first, other), (ENV, ENV if env is None else env)
    for server, line, environ, gpu, version in zip(world.servers, lines, envs, gpus, versions, strict=True):
        server.launcher = FakeLauncher(line, env=dict(environ))
        one = world.fleet.managed[server.name]
        managed[server.name] = replace(one, server=replace(one.server, gpu=gpu))
        with world.store.write() as unit:
            unit.lives.add(
                Life(
                    id=LifeId(server.name), server=server.name, model="tiny", engine="0", first_seen=world.clock.now(),
                    evidence=StartEvidence.FIRST_SEEN, counts_from_zero=False, engine_version=version,
                    setting=tokens(2),
                )
            )  # fmt: skip
    with world.store.read() as unit:
        return differences(unit, [server.name for server in world.servers], managed)


class TestDifferences:
    def test_replicas_have_none(self) -> None:
        place = (*BASE, "--port", "8001", "--api-key", "k2")
        first, env = (*BASE, "--port", "8000", "--api-key", "k1"), {**ENV, "CUDA_VISIBLE_DEVICES": "1"}
        assert found(first, place, env=env) == ()
        assert found(gpus=("L4", "L4"), versions=("0.32.0", "0.32.0")) == ()

    def test_what_is_not_known_is_none(self) -> None:
        assert found(gpus=("L4", None), versions=("0.32.0", None)) == ()

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            (("vllm", "serve", "tiny", "--max-num-seqs", "64"), "s2 has --max-num-seqs 64, s1 has --max-num-seqs 128"),
            (BASE[:3], "s2 lacks --max-num-seqs 128, which s1 has"),
            ((*BASE, "--enforce-eager"), "s2 has --enforce-eager, which s1 lacks"),
            (("vllm", "serve", "large", *BASE[3:]), "s2 has argument 1 large, s1 has argument 1 tiny"),
            ((*BASE, "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2}'),
             "the speculation of s2, its number of tokens aside, is another than that of s1"),
        ],
    )  # fmt: skip
    def test_arguments_are_named(self, other: tuple[str, ...], said: str) -> None:
        assert found(other=other) == (said,)

    def test_the_number_of_tokens_is_no_difference_it_is_what_is_tuned(self) -> None:
        lines = [
            (*BASE, "--speculative-config", f'{{"method": "ngram", "num_speculative_tokens": {n}}}') for n in (2, 5)
        ]
        assert found(*lines) == ()

    def test_environment_release_and_gpu_are_named_and_secrets_are_not(self) -> None:
        told = found(
            env={"CUDA_VISIBLE_DEVICES": "1", "HF_TOKEN": "hf_another0123456789"}, gpus=("H100", "L4"),
            versions=("0.32.0", "0.31.1"),
        )
        assert told == (
            "the engine's release of s2 is 0.31.1, of s1 0.32.0",
            "the GPU of s2 is L4, of s1 H100",
            "s2 lacks VLLM_ATTENTION_BACKEND FLASHINFER, which s1 has",
        )

    def test_many_are_counted(self) -> None:
        told = found(other=(*BASE, *(f"--flag-{n}" for n in range(8))))
        assert (len(told), told[-1]) == (6, "and 3 more differences")


class TestAdmission:
    def test_a_group_of_different_servers_is_refused_with_the_difference_named(self) -> None:
        world = World(2)
        world.servers[1].launcher = FakeLauncher(("vllm", "serve", "tiny", "--lora", "other"))
        with pytest.raises(ActionError, match=r"not replicas.*s2 has --lora other, s1 has --lora adapter") as caught:
            world.begin(3, by_operator=True)
        assert (caught.value.reason, caught.value.retryable) == ("unlike", False)

    def test_one_of_them_alone_is_changed_all_the_same(self) -> None:
        world = World(2)
        world.servers[1].launcher = FakeLauncher(("vllm", "serve", "tiny", "--lora", "other"))
        world.begin(3, servers=[world.server])
        assert world.run()
        assert world.server.tokens == 3
