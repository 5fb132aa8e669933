"""Mutated real pages through the whole reader: never an exception, never a plausible wrong number unflagged."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.intervals.pages import PageInput, read_pages
from tests.fakes.mutations import SAMPLES, SMALL, mutated

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
