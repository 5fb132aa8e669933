"""What servers tell of themselves: real answers of vLLM and llama-server, SGLang's arguments, and nonsense."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import ScrapeError
from monitor.model.life import Said, Setting, SettingSource
from monitor.model.server import Engine
from monitor.targets.told import Told, ask_server, read_sglang, read_slots, read_vllm

ANSWERS = Path(__file__).parents[2] / "golden" / "answers"
INFO = "/server_info?config_format=json"


def answer(name: str) -> object:
    found: object = json.loads((ANSWERS / f"{name}.json").read_text())
    return found


def told(setting: Setting, adapts: str | None = None) -> Said:
    return Said(source=SettingSource.SERVER_INFO, setting=setting, adapts=adapts)


class Server:
    """Answers by path; a path that is not there has none, an error is raised."""

    def __init__(self, **answers: object) -> None:
        self.answers: Mapping[str, object] = {f"/{path}": value for path, value in answers.items()}
        self.asked: list[str] = []

    def get(self, path: str) -> object:
        self.asked.append(path)
        found = self.answers.get(path.partition("?")[0])
        if isinstance(found, Exception):
            raise found
        return found


class TestVllm:
    @pytest.mark.parametrize(
        ("name", "setting"),
        [
            ("off", Setting(num_speculative_tokens=0)),
            ("off_text", Setting(num_speculative_tokens=0)),
            ("ngram", Setting(method="ngram", num_speculative_tokens=3)),
            ("ngram_text", Setting(method="ngram", num_speculative_tokens=3)),
            (
                "draft",
                Setting(
                    method="draft_model", num_speculative_tokens=5, draft_model="/models/draft-good",
                    schedule=((1, 4, 5), (5, 64, 2)),
                ),
            ),
            # The text has no schedule.
            (
                "draft_text",
                Setting(method="draft_model", num_speculative_tokens=5, draft_model="/models/draft-good"),
            ),
        ],
    )  # fmt: skip
    def test_its_configuration_says_the_setting(self, name: str, setting: Setting) -> None:
        assert read_vllm(answer(f"vllm-0.32.0_{name}")) == told(setting)

    def test_before_the_method_had_a_name_in_the_text(self) -> None:
        text = "model='m', speculative_config=SpeculativeConfig(draft_model='org/draft', num_spec_tokens=4), seed=0"
        assert read_vllm({"vllm_config": text}) == told(Setting(num_speculative_tokens=4, draft_model="org/draft"))

    def test_adaptive_verification_is_the_engines_own_moving(self) -> None:
        given = {"method": "dspark", "num_speculative_tokens": 7, "enable_adaptive_verification": True}
        said = read_vllm({"vllm_config": {"speculative_config": given}})
        assert said is not None and said.adapts is not None and "adaptive verification" in said.adapts

    def test_the_engines_own_word_for_a_model_is_no_draft_model(self) -> None:
        given = {"method": "deepseek_mtp", "num_speculative_tokens": 1, "model": "org/target"}
        said = read_vllm({"vllm_config": {"speculative_config": given}})
        assert said == told(Setting(method="mtp", num_speculative_tokens=1))

    def test_what_cannot_be_read_is_said_and_not_guessed(self) -> None:
        said = read_vllm({"vllm_config": {"speculative_config": {"num_speculative_tokens": "many"}}})
        assert said is not None and said.setting == Setting()
        assert said.note is not None and "num_speculative_tokens" in said.note

    def test_version_and_information_are_asked_for(self) -> None:
        server = Server(version={"version": "0.32.0"}, server_info=answer("vllm-0.32.0_ngram"))
        assert ask_server(Engine.VLLM, server.get) == Told(
            "0.32.0", told(Setting(method="ngram", num_speculative_tokens=3))
        )
        assert server.asked == ["/version", INFO]

    def test_without_development_mode_there_is_a_version_only_and_nothing_to_ask_again(self) -> None:
        assert ask_server(Engine.VLLM, Server(version={"version": "0.32.0"}).get) == Told("0.32.0")

    def test_no_answer_is_worth_asking_again(self) -> None:
        server = Server(version=ScrapeError("timeout"), server_info=answer("vllm-0.32.0_off"))
        found = ask_server(Engine.VLLM, server.get)
        assert (found.version, found.is_whole) == (None, False)
        assert found.said == told(Setting(num_speculative_tokens=0))


#: Of SGLang 0.5.23's answer, the part that its server arguments are (`dataclasses.asdict(server_args)`).
SGLANG = {
    "version": "0.5.23", "model_path": "m", "api_key": "s3cret", "speculative_algorithm": "EAGLE3",
    "speculative_draft_model_path": "org/head", "speculative_num_steps": 3, "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4, "speculative_adaptive": False, "speculative_token_map": None,
    "speculative_accept_threshold_single": 1.0, "internal_states": [{"avg_spec_accept_length": 2.4}],
}  # fmt: skip


class TestSglang:
    def test_its_arguments_are_read_as_the_flags_that_they_are(self) -> None:
        setting = Setting(method="eagle3", num_speculative_tokens=3, draft_model="org/head")
        assert ask_server(Engine.SGLANG, Server(server_info=SGLANG).get) == Told("0.5.23", told(setting))

    def test_off(self) -> None:
        assert read_sglang({**SGLANG, "speculative_algorithm": None}) == told(Setting(num_speculative_tokens=0))

    def test_the_adaptive_mode_is_known(self) -> None:
        said = read_sglang({**SGLANG, "speculative_adaptive": True})
        assert said is not None and said.adapts == "SGLang's adaptive mode (--speculative-adaptive)"

    def test_the_older_path_is_asked_where_there_is_no_newer(self) -> None:
        server = Server(get_server_info=SGLANG)
        assert ask_server(Engine.SGLANG, server.get).version == "0.5.23"
        assert server.asked == ["/server_info", "/get_server_info"]
        silent = Server(server_info=ScrapeError("timeout"))
        assert ask_server(Engine.SGLANG, silent.get) == Told(is_whole=False)
        assert silent.asked == ["/server_info"]

    def test_a_key_of_the_server_is_in_no_note(self) -> None:
        said = read_sglang({**SGLANG, "speculative_num_steps": "many"})
        assert "s3cret" not in str(said)


class TestLlamacpp:
    def test_slots_tell_off_from_on_and_not_how(self) -> None:
        assert read_slots(answer("llamacpp-b11434_off_slots")) == told(Setting(num_speculative_tokens=0))
        assert read_slots(answer("llamacpp-b11434_draft_n4_slots")) is None
        assert read_slots([]) is None

    def test_the_build_is_its_version(self) -> None:
        server = Server(props={"build_info": "b11434-0a1b2c3"}, slots=answer("llamacpp-b11434_off_slots"))
        assert ask_server(Engine.LLAMACPP, server.get).version == "b11434"

    def test_a_build_that_does_not_know_itself_has_none(self) -> None:
        props = answer("llamacpp-b11434_off_props")
        assert isinstance(props, dict) and props["build_info"] == "b0-unknown"
        assert ask_server(Engine.LLAMACPP, Server(props=props).get) == Told()


def test_an_engine_that_is_not_known_is_asked_nothing() -> None:
    server = Server()
    assert ask_server(Engine.UNKNOWN, server.get) == Told()
    assert not server.asked


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["vllm_config", "speculative_config", "speculative_algorithm", "speculative_num_steps", "method", "model",
     "num_speculative_tokens", "num_speculative_tokens_per_batch_size", "version", "build_info", "speculative"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, st.one_of(JSON, st.dictionaries(KEYS, st.one_of(JSON, st.dictionaries(KEYS, JSON))))))
def test_any_answer_is_read_or_left(found: dict[str, object]) -> None:
    for engine in Engine:
        assert ask_server(engine, lambda path: found).is_whole
    read_slots([found])
