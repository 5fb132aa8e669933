"""What a rendering does with the line and with what is known of the target; the golden files hold the rest."""

from __future__ import annotations

import pytest

from monitor.errors import LaunchError
from monitor.launch import Speculation, Target, parse_command, render
from monitor.launch.versions import parse_version
from monitor.launch.vllm_methods import Generation, generation
from monitor.model.server import Engine

VLLM = Engine.VLLM
NGRAM = Speculation(method="ngram", num_speculative_tokens=3, prompt_lookup_max=4)
DRAFT = Speculation(method="draft_model", model="d", num_speculative_tokens=3)
MTP = Speculation(method="mtp", num_speculative_tokens=6)


def test_only_speculation_changes_and_order_is_kept() -> None:
    line = "numactl --membind=0 vllm serve m --a_b=c --spec-tokens 2 -sc.method ngram --z".split()
    rendered = render(VLLM, "0.33.0", line, NGRAM)
    assert rendered.argv[:6] == ("numactl", "--membind=0", "vllm", "serve", "m", "--a_b=c")
    assert rendered.argv[6:] == (
        "--z",
        "--speculative-config",
        '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}',
    )


@pytest.mark.parametrize("version", ["0.4.2", "0.6.2", "0.8.1", "0.8.2", "0.33.0"])
def test_rendering_again_changes_nothing(version: str) -> None:
    once = render(VLLM, version, ["vllm", "serve", "m"], NGRAM)
    assert render(VLLM, version, once.argv, NGRAM) == once
    assert parse_command(VLLM, once.argv).speculation == NGRAM
    off = render(VLLM, version, once.argv, None)
    assert [item for item in off.argv if item != "--use-v2-block-manager"] == ["vllm", "serve", "m"]


def test_the_block_manager_flag_is_not_given_twice() -> None:
    for spelled in ("--use-v2-block-manager", "--use_v2_block_manager"):
        argv = render(VLLM, "0.6.0", ["vllm", "serve", "m", spelled], DRAFT).argv
        assert argv.count("--use-v2-block-manager") + argv.count("--use_v2_block_manager") == 1


@pytest.mark.parametrize(
    ("version", "heads", "said"),
    [
        ("0.7.3", 6, None),
        ("0.7.3", 3, "at most n_predict of the draft (3)"),
        ("0.8.0", 3, None),
        ("0.8.0", 4, "up to n_predict of the draft (4) or a multiple"),
        ("0.8.0", 8, None),
        ("0.33.0", 4, "or a multiple"),
        ("0.33.0", None, None),
    ],
)
def test_the_count_fits_the_heads_of_the_draft(version: str, heads: int | None, said: str | None) -> None:
    if said is None:
        render(VLLM, version, [], MTP, Target(n_predict=heads))
        return
    with pytest.raises(LaunchError) as error:
        render(VLLM, version, [], MTP, Target(n_predict=heads))
    assert said in str(error.value)


def test_known_heads_stand_in_for_a_count() -> None:
    mtp = Speculation(method="mtp")
    with pytest.raises(LaunchError, match="found no num_speculative_tokens"):
        render(VLLM, "0.33.0", [], mtp)
    assert render(VLLM, "0.33.0", [], mtp, Target(n_predict=1)).argv[-1] == '{"method":"mtp"}'
    with_model = Speculation(method="mtp", model="x")
    assert render(VLLM, "0.33.0", [], with_model).argv[-1] == '{"method":"mtp","model":"x"}'


def test_the_width_of_dspark_is_not_bound_to_heads() -> None:
    speculation = Speculation(method="dspark", num_speculative_tokens=7)
    assert render(VLLM, "0.33.0", [], speculation, Target(n_predict=3)).warnings == ()


@pytest.mark.parametrize(
    ("version", "line", "size", "target", "is_allowed"),
    [
        ("0.6.2", ["-tp", "4"], 1, None, True),
        ("0.6.2", ["-tp", "4"], 4, None, True),
        ("0.6.2", ["-tp", "4"], 2, None, False),
        ("0.9.2", ["--tensor_parallel_size=4"], 1, None, True),
        ("0.15.0", ["-tp", "4"], 1, None, False),
        ("0.15.0", ["-tp", "4"], 4, None, True),
        ("0.15.0", [], 1, None, True),
        ("0.33.0", [], 2, 2, True),
        ("0.33.0", [], 2, 4, False),
        ("0.33.0", ["-tp", "4"], None, None, True),
    ],
)
def test_the_drafts_parallel_size_is_one_or_the_targets(
    version: str, line: list[str], size: int | None, target: int | None, is_allowed: bool
) -> None:
    speculation = Speculation.from_json(DRAFT.to_json() | {"draft_tensor_parallel_size": size})
    known = Target(tensor_parallel_size=target)
    if is_allowed:
        render(VLLM, version, line, speculation, known)
    else:
        with pytest.raises(LaunchError, match=f"draft_tensor_parallel_size {size}"):
            render(VLLM, version, line, speculation, known)


def test_an_eagle_head_may_run_on_one_gpu_beside_many() -> None:
    speculation = Speculation(method="eagle3", model="e", num_speculative_tokens=3, draft_tensor_parallel_size=1)
    render(VLLM, "0.33.0", ["-tp", "8"], speculation)
    with pytest.raises(LaunchError, match="eagle on engine V0 needs draft_tensor_parallel_size 1, found none"):
        render(VLLM, "0.8.2", ["-tp", "8"], Speculation(method="eagle", model="e", num_speculative_tokens=3))


def test_vocabularies_must_be_equal_unless_they_are_mapped() -> None:
    known = Target(vocab_size=128_256, draft_vocab_size=32_000)
    with pytest.raises(LaunchError, match="32000 entries and the target's 128256"):
        render(VLLM, "0.33.0", [], DRAFT, known)
    render(VLLM, "0.9.2", [], DRAFT, known)
    render(VLLM, "0.33.0", [], DRAFT, Target(vocab_size=128_256))
    mapped = Speculation.from_json(DRAFT.to_json() | {"use_heterogeneous_vocab": True})
    render(VLLM, "0.33.0", [], mapped, known)


@pytest.mark.parametrize(
    ("version", "method", "environment", "expected"),
    [
        ("0.6.2", "draft_model", {}, "V0"),
        ("0.7.3", "ngram", {}, "V0"),
        ("0.7.3", "ngram", {"VLLM_USE_V1": "1"}, "V1"),
        ("0.8.5", "ngram", {}, "V0"),
        ("0.8.5", "ngram", {"VLLM_USE_V1": "1"}, "V1"),
        ("0.9.0", "ngram", {}, "V1"),
        ("0.9.0", "ngram", {"VLLM_USE_V1": "0"}, "V0"),
        ("0.9.2", "deepseek_mtp", {}, "V1"),
        ("0.9.2", "draft_model", {}, "V0"),
        ("0.9.2", None, {}, "V0"),
        ("0.10.0", None, {"VLLM_USE_V1": "0"}, "V1"),
    ],
)
def test_the_engine_a_release_picks(
    version: str, method: str | None, environment: dict[str, str], expected: str
) -> None:
    assert generation(parse_version(VLLM, version), method, environment) is Generation(expected)


def test_the_environment_of_the_operator_decides_the_engine() -> None:
    pinned = Target(environment={"VLLM_USE_V1": "1"})
    with pytest.raises(LaunchError, match=r"draft_model: engine V1 of vLLM 0\.9\.2 does not run it, VLLM_USE_V1"):
        render(VLLM, "0.9.2", [], DRAFT, pinned)
    assert render(VLLM, "0.8.5", [], NGRAM, pinned).warnings == ()
    eagle3 = Speculation(method="eagle3", model="e", num_speculative_tokens=3)
    assert render(VLLM, "0.8.5", [], eagle3, pinned).env == {}
    assert render(VLLM, "0.8.5", [], eagle3).env == {"VLLM_USE_V1": "1"}
    with pytest.raises(LaunchError, match=r"engine V0 of vLLM 0\.8\.5"):
        render(VLLM, "0.8.5", [], eagle3, Target(environment={"VLLM_USE_V1": "0"}))


def test_a_schedule_beyond_the_count_is_told() -> None:
    speculation = Speculation(
        method="ngram", num_speculative_tokens=2, num_speculative_tokens_per_batch_size=((1, 4, 5), (5, 8, 0))
    )
    warnings = " ".join(render(VLLM, "0.24.0", [], speculation).warnings)
    assert "counts above num_speculative_tokens (2) are cut to it" in warnings
    assert "deadlock" in " ".join(render(VLLM, "0.25.0", ["-dp", "2"], speculation).warnings)
    assert "turns schedules off" in " ".join(render(VLLM, "0.28.0", ["-dp", "2"], speculation).warnings)
    with pytest.raises(LaunchError, match="expected it beside a schedule"):
        uncounted = Speculation.from_json(speculation.to_json() | {"num_speculative_tokens": None})
        render(VLLM, "0.33.0", [], uncounted, Target(n_predict=1))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"rejection_sample_method": "strict"}, "found 'strict', vLLM 0.33.0 expects one of standard"),
        ({"rejection_sample_method": "synthetic"}, "expected one of synthetic_acceptance_rates and _length"),
        (
            {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.9]},
            "found 1 rates, expected 3",
        ),
        ({"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 9.0}, "expected 1 to 4"),
        ({"synthetic_acceptance_length": 2.0}, "expected rejection_sample_method 'synthetic'"),
        ({"draft_sample_method": "gumbel"}, "expects one of greedy, probabilistic"),
    ],
)
def test_values_that_the_engine_would_refuse_at_start(extra: dict[str, object], said: str) -> None:
    with pytest.raises(LaunchError) as error:
        render(VLLM, "0.33.0", [], Speculation.from_json(NGRAM.to_json() | extra))
    assert said in str(error.value)


def test_a_limit_by_batch_size_must_be_above_one() -> None:
    for version in ("0.6.2", "0.8.5"):
        with pytest.raises(LaunchError, match="disable_by_batch_size: found 1, expected 2 or more"):
            render(VLLM, version, [], Speculation.from_json(DRAFT.to_json() | {"disable_by_batch_size": 1}))


def test_a_key_that_belongs_to_another_method_is_told() -> None:
    speculation = Speculation.from_json(NGRAM.to_json() | {"suffix_decoding_max_tree_depth": 3, "brand_new": 1})
    warnings = render(VLLM, "0.33.0", [], speculation).warnings
    assert "key suffix_decoding_max_tree_depth: has no effect without method suffix" in warnings
    assert "key brand_new: acceptd does not know it and passes it on as it is" in warnings


def test_a_model_beside_a_method_without_one_is_left_out() -> None:
    rendered = render(VLLM, "0.33.0", [], Speculation(method="suffix", model="x", num_speculative_tokens=2))
    assert '"model"' not in rendered.argv[-1]
    assert any("'x' is left out" in warning for warning in rendered.warnings)


def test_off_beside_a_config_file_is_told() -> None:
    rendered = render(VLLM, "0.33.0", ["--config", "x.yaml"], None)
    assert rendered.warnings == ("--config x.yaml: may switch speculation on, it is not read",)


def test_extras_of_sglang_and_llama_server_go_back_to_the_line() -> None:
    line = "sglang serve m --speculative-algorithm EAGLE --speculative-draft-model-path d --speculative-num-steps 3"
    line += " --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --speculative-token-map t"
    command = parse_command(Engine.SGLANG, line.split())
    assert render(Engine.SGLANG, "0.5.23", command.base_argv, command.speculation).argv == tuple(line.split())
    line = "llama-server -m T --spec-type draft-simple -md D --spec-draft-n-max 4"
    line += " --spec-draft-ngl 99 --spec-draft-p-min 0.5"
    command = parse_command(Engine.LLAMACPP, line.split())
    assert render(Engine.LLAMACPP, "b11434", command.base_argv, command.speculation).argv == tuple(line.split())


def test_several_types_of_llama_server_stay_together() -> None:
    line = ["llama-server", "--spec-type", "draft-mtp,ngram-mod", "--spec-draft-n-max", "2"]
    command = parse_command(Engine.LLAMACPP, line)
    assert render(Engine.LLAMACPP, "b11434", command.base_argv, command.speculation).argv == tuple(line)


def test_more_tokens_than_mtp_layers_are_told_for_llama_server() -> None:
    rendered = render(Engine.LLAMACPP, "b11434", [], MTP, Target(n_predict=2))
    assert "cuts it to the 2 MTP layers" in rendered.warnings[0]


def test_an_engine_that_acceptd_cannot_start_is_refused() -> None:
    with pytest.raises(LaunchError, match="engine 'unknown'"):
        render(Engine.UNKNOWN, "1.0", [], None)
