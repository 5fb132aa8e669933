"""Mutated real pages through the whole reader: never an exception, never a plausible wrong number unflagged."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.intervals.pages import PageInput, read_pages
from tests.fakes.mutations import EXPOSITION, SAMPLES, SMALL, damaged, mutated, spliced

V1_PAGES = [
    (SAMPLES / f"{name}.prom").read_bytes()
    for name in (
        "v1_pair_15s_k5.t1",
        "v1_prefix_traps_and_itl",
        "dup_series_same_page",
        "vllm_0.32.0_v1_draft_model_k3",
    )
]
RELIABLE = {"identities_broken", "acceptance_out_of_range", "duplicate_series", "bad_sample", "per_position_confounded"}
COUNTS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "acceptance_rate_per_position")


def say(*bodies: bytes, **how: Any) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(
        json.dumps(
            read_pages([PageInput(body, "text/plain; version=0.0.4") for body in bodies], **how), allow_nan=False
        )
    )
    return said


def check_sane(said: dict[str, Any]) -> None:
    assert said["reason"]
    for model in said["models"]:
        for reading in (model["lifetime"], model["interval"] or {}):
            rate, length = reading.get("acceptance_rate"), reading.get("acceptance_length")
            assert rate is None or 0 <= rate <= 1
            assert length is None or length >= 0
            for at in reading.get("acceptance_rate_per_position") or ():
                assert at is None or 0 <= at <= 1
            speed = reading.get("generation_tokens_per_second")
            assert speed is None or speed >= 0
        assert model["kv_usage_max"] is None or 0 <= model["kv_usage_max"] <= 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(mutated(), st.sampled_from(SMALL)), min_size=1, max_size=4))
def test_any_run_of_mutated_pages_gives_a_verdict(bodies: list[bytes]) -> None:
    check_sane(say(*bodies, elapsed=[15.0] * (len(bodies) - 1)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=3), st.sampled_from([200, 204, 301, 400, 418, 503, 999]))
def test_any_bytes_give_a_verdict(bodies: list[bytes], status: int) -> None:
    said = read_pages([PageInput(body, None, status) for body in bodies], elapsed=[1.0] * (len(bodies) - 1))
    assert said["verdict"]
    assert said["reason"]


SPECULATION = re.compile(rb"^(vllm:spec_decode_\w+_total\{[^\n]*\} )(\d+)(\.0)$", re.MULTILINE)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(V1_PAGES), st.data())
def test_a_changed_digit_of_speculation_is_noticed_where_identities_betray_it(page: bytes, data: st.DataObject) -> None:
    found = data.draw(st.sampled_from(list(SPECULATION.finditer(page))))
    digits = found.group(2)
    at = data.draw(st.integers(0, len(digits) - 1))
    digit = data.draw(st.sampled_from([b"0", b"1", b"5", b"9"]))
    wrong = digits[:at] + digit + digits[at + 1 :]
    said = say(page[: found.start(2)] + wrong + page[found.end(2) :])
    check_sane(said)
    share = abs(int(wrong) - int(digits)) / int(digits)
    is_drafts = b"num_drafts_total" in found.group(1) or b"num_draft_tokens_total" in found.group(1)
    if int(wrong) != int(digits) and not (is_drafts and share < 0.021):
        assert RELIABLE & set(said["flags"]), (found.group(0), wrong, said)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(V1_PAGES), st.data())
def test_a_page_cut_at_a_line_is_noticed_or_says_nothing_wrong(page: bytes, data: st.DataObject) -> None:
    """Even cut where a line ends: what is left is right, missing, or flagged."""
    lines = page.splitlines(keepends=True)
    whole = say(page)["models"][0]["lifetime"]
    said = say(b"".join(lines[: data.draw(st.integers(1, len(lines)))]))
    for model in said["models"]:
        for key in COUNTS:
            assert model["lifetime"][key] in (None, whole[key]) or RELIABLE & set(said["flags"]), (key, model)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(V1_PAGES), st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_matter(page: bytes, random: Any) -> None:
    lines = page.splitlines(keepends=True)
    random.shuffle(lines)
    assert say(b"".join(lines))["models"] == say(page)["models"]


PAIRS = [
    (before.read_bytes(), after.read_bytes())
    for before in sorted(EXPOSITION.glob("*/*.t0.prom"))
    for after in [before.with_name(before.name.replace(".t0.", ".t1."))]
]
#: Flags by which numbers that contradict each other are told.
DOUBTS = {"identities_broken", "acceptance_out_of_range", "duplicate_series", "bad_sample", "v0_counters_unreliable"}


def broken_identities(said: dict[str, Any]) -> list[str]:
    """What the numbers that were read say against each other: worked out here, from what is printed alone."""
    found = []
    for model in said["models"]:
        engines = [*model["per_engine"].values()]
        readings = [part[when] for part in (model, *engines) for when in ("lifetime", "interval") if part[when]]
        tokens = model["num_speculative_tokens"]
        for reading in readings:
            drafts, drafted, accepted = (reading[key] for key in COUNTS[:3])
            at, length = reading["acceptance_rate_per_position"], reading["acceptance_length"]
            if drafted is not None and accepted is not None and accepted > drafted:
                found.append(f"{accepted} accepted of {drafted}")
            if None not in (tokens, drafts, drafted) and drafted > tokens * drafts * 1.001:
                found.append(f"{drafted} draft tokens in {drafts} drafts of {tokens}")
            if at and None not in at and accepted is not None and abs(sum(at) * drafts - accepted) > 0.5:
                found.append(f"positions {at} of {drafts} drafts, {accepted} accepted")
            if at and None not in at and any(later > earlier for earlier, later in pairwise(at)):
                found.append(f"positions rise: {at}")
            if length is not None and length < 1:
                found.append(f"length {length}")
    return found


def is_exact(page: bytes) -> bool:
    """Whether its counters are of one moment: one process, and no Ray in between."""
    return b"process_start_time_seconds" in page or page.startswith(b"# HELP llamacpp")


EXACT = [pair for pair in PAIRS if is_exact(pair[0])]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(EXACT), st.booleans(), st.data())
def test_numbers_that_contradict_each_other_are_flagged(
    pair: tuple[bytes, bytes], first: bool, data: st.DataObject
) -> None:
    """One of two consecutive pages damaged: what is read keeps every identity, or a flag says that it does not."""
    bodies = [data.draw(damaged(page)) if index == (not first) else page for index, page in enumerate(pair)]
    for pages in ([bodies[not first]], bodies):
        said = say(*pages, elapsed=[15.0] * (len(pages) - 1))
        check_sane(said)
        assert not broken_identities(said) or DOUBTS & set(said["flags"]), (broken_identities(said), said["reason"])


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(EXACT), st.sampled_from(EXACT), st.data())
def test_two_pages_in_one_are_flagged_where_their_numbers_do_not_fit(
    pair: tuple[bytes, bytes], other: tuple[bytes, bytes], data: st.DataObject
) -> None:
    body = data.draw(spliced(pair[0], data.draw(st.sampled_from([pair[1], *other]))))
    for pages in ([body], [body, pair[1]], [pair[0], body]):
        said = say(*pages, elapsed=[15.0] * (len(pages) - 1))
        check_sane(said)
        assert not broken_identities(said) or DOUBTS & set(said["flags"]), (broken_identities(said), said["reason"])


HOSTILE = (
    "1e99 -1e99 9e99 1e999 -5 0.5 1e-300 5e-324 1_0 nan inf 1e18 18446744073709551616 007 +3 0x10 " + "9" * 5000
).split()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SMALL), st.data())
def test_hostile_numbers_and_labels_break_nothing(page: bytes, data: st.DataObject) -> None:
    """Every value and label of some lines replaced by something absurd, on one page of two."""
    lines = page.split(b"\n")
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(lines) - 1))
        if not lines[at] or lines[at].startswith(b"#"):
            continue
        value = data.draw(st.sampled_from(HOSTILE)).encode()
        if data.draw(st.booleans()):
            lines[at] = lines[at].rpartition(b" ")[0] + b" " + value
        else:
            lines[at] = re.sub(rb'(position|engine|le)="[^"]*"', rb'\1="' + value.replace(b"\\", b"") + b'"', lines[at])
    hostile = b"\n".join(lines)
    for bodies in ((hostile,), (page, hostile), (hostile, page), (hostile, hostile)):
        check_sane(say(*bodies, elapsed=[1e-9] * (len(bodies) - 1)))
