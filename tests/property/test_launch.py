"""Whatever a line holds: speculation changes, nothing else does, and nothing crashes."""

from __future__ import annotations

import json
import shlex

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import LaunchError
from monitor.launch import Speculation, diff_command, parse_command, redact, redact_text, render, render_json
from monitor.launch.schedule import read_schedule, tokens_at
from monitor.model.server import Engine

ENGINES = {Engine.VLLM: "0.33.0", Engine.SGLANG: "0.5.23", Engine.LLAMACPP: "b11434"}
VLLM_VERSIONS = ["0.4.1", "0.4.2", "0.6.2", "0.7.3", "0.8.1", "0.8.2", "0.9.2", "0.10.0", "0.15.0", "0.24.0", "0.33.0"]

#: Items of base commands: values, flags the tables hold and flags they do not, none of them about speculation.
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).filter(
    lambda text: not text.startswith("-")
)
OTHER = st.sampled_from(
    [["--seed", "1"], ["--port", "9000"], ["-tp", "1"], ["--max-model-len=512"], ["--enforce-eager"], ["--x.y", "{}"]]
)
BASES = st.lists(st.one_of(OTHER, VALUES.map(lambda value: ["--chat-template", value])), max_size=6).map(
    lambda groups: ["vllm", "serve", "m", *(item for group in groups for item in group)]
)
COUNTS = st.integers(1, 16)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9/_.-]{0,20}", fullmatch=True).filter(lambda name: name != "ngram")
SPECULATIONS = st.one_of(
    st.builds(
        lambda tokens, least, more: Speculation(
            method="ngram", num_speculative_tokens=tokens, prompt_lookup_min=least, prompt_lookup_max=least + more
        ),
        COUNTS,
        st.integers(1, 4),
        st.integers(0, 4),
    ),
    st.builds(
        lambda method, model, tokens: Speculation(method=method, model=model, num_speculative_tokens=tokens),
        st.sampled_from(["draft_model", "eagle", "eagle3", "medusa"]),
        NAMES,
        COUNTS,
    ),
)
#: Anything at all, so that parsers meet what nobody thought of.
SPEC_ITEMS = st.sampled_from(
    (
        "--speculative-config -sc -sc.method --spec-tokens --speculative-model --num-speculative-tokens --speculative-m"
        " --speculative-algorithm --speculative-num-steps --spec-type -md --draft-max --spec-draft-n-max --spec-default"
        " --speculative-config={ --spec_tokens=x --disable-logprobs-during-spec-decoding true -tp = -- 3 ngram {}"
    ).split()
)
JUNK = st.lists(st.one_of(SPEC_ITEMS, st.text(max_size=20)), max_size=12)


def cut_in(base: list[str], where: int, items: list[str]) -> list[str]:
    """`items` put before one of the flags of `base`, or at its end."""
    places = [index for index, item in enumerate(base) if item.startswith("-")] + [len(base)]
    place = places[where % len(places)]
    return [*base[:place], *items, *base[place:]]


@settings(deadline=None)
@given(BASES, st.integers(0, 20), SPECULATIONS)
def test_what_was_parsed_is_rendered_with_the_rest_untouched(base: list[str], where: int, before: Speculation) -> None:
    line = cut_in(base, where, ["--speculative-config", json.dumps(before.to_json())])
    command = parse_command(Engine.VLLM, line)
    assert command.base_argv == tuple(base)
    assert command.speculation == before
    argv = render(Engine.VLLM, "0.32.0", command.base_argv, command.speculation).argv
    assert argv[: len(base)] == tuple(base)
    assert len(argv) == len(base) + 2


@settings(deadline=None)
@given(BASES, SPECULATIONS, SPECULATIONS, st.sampled_from(VLLM_VERSIONS))
def test_rendering_is_idempotent_and_off_restores_the_base(
    base: list[str], first: Speculation, second: Speculation, version: str
) -> None:
    for speculation in (first, second):
        try:
            once = render(Engine.VLLM, version, base, speculation)
        except LaunchError as error:
            assert str(error)
            continue
        assert render(Engine.VLLM, version, once.argv, speculation) == once
        assert once.argv[: len(base)] == tuple(base)
        off = render(Engine.VLLM, version, once.argv, None).argv
        assert [item for item in off if item != "--use-v2-block-manager"] == base
        read = parse_command(Engine.VLLM, once.argv).speculation
        assert read is not None
        assert (read.model, read.num_speculative_tokens) == (speculation.model, speculation.num_speculative_tokens)


@settings(deadline=None)
@given(SPECULATIONS, COUNTS)
def test_a_new_count_changes_the_count_only(before: Speculation, tokens: int) -> None:
    after = before.with_setting(Speculation(num_speculative_tokens=tokens).setting)
    assert after.to_json() == before.to_json() | {"num_speculative_tokens": tokens}
    assert Speculation.from_json(after.to_json()) == after


@settings(deadline=None)
@given(st.sampled_from(sorted(ENGINES)), JUNK)
def test_any_line_is_read_without_a_crash_and_nothing_is_added(engine: Engine, line: list[str]) -> None:
    command = parse_command(engine, line)
    rest = iter(line)
    assert all(item in rest for item in command.base_argv), "the base is not what the line held, in its order"
    try:
        argv = render(engine, ENGINES[engine], command.base_argv, command.speculation).argv
    except LaunchError as error:
        assert str(error)
        return
    assert parse_command(engine, argv).base_argv == render(engine, ENGINES[engine], line, None).argv


@settings(deadline=None)
@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=40), st.text(max_size=40))
def test_the_contract_answers_anything_with_json(engine: str, version: str, speculation: str, target: str) -> None:
    for one in (engine, "vllm", "llamacpp", "sglang"):
        for at in (version, "0.33.0", "b11434"):
            code, answer = render_json(one, at, speculation, target)
            assert code in (0, 2)
            assert ("error" in answer) == (code == 2)
            json.dumps(answer)


@settings(deadline=None)
@given(JUNK)
def test_redaction_keeps_the_items_and_settles_at_once(line: list[str]) -> None:
    shown = redact(line)
    assert len(shown) == len(line)
    assert redact(shown) == shown
    assert diff_command(line, line) == []


@settings(deadline=None)
@given(
    st.sampled_from(["--api-key", "--hf-token", "--admin_api_key", "-hft"]),
    st.from_regex(r"[A-Za-z0-9_]{6,40}", fullmatch=True),
    st.sampled_from(["{0} {1}", "x {0} {1} --port 1", "{0} '{1}'", "cmd: {0} \"{1}\" --y"]),
)
def test_a_value_after_a_secrets_flag_is_never_shown(flag: str, value: str, shape: str) -> None:
    assert value not in " ".join(redact(["vllm", "serve", flag, value, "--port", "1"])).split()
    text = redact_text(shape.format(flag, value))
    assert value not in shlex.split(text)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20), st.integers(0, 9)), min_size=1, max_size=5),
    st.integers(1, 200),
    COUNTS,
)
def test_a_valid_schedule_gives_every_batch_size_a_count(
    parts: list[tuple[int, int, int]], batch: int, tokens: int
) -> None:
    ranges, start = [], 1
    for gap, length, count in parts:
        start = start if not ranges else start + gap
        ranges.append([start, start + length - 1, count])
        start += length
    schedule = read_schedule(ranges)
    assert [list(entry) for entry in schedule] == ranges
    reached = [count for first, _, count in ranges if first <= batch]
    assert tokens_at(schedule, batch, tokens) == min(tokens, reached[-1])
