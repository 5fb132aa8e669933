from __future__ import annotations

import pytest

from monitor.errors import LaunchError
from monitor.launch import Speculation
from monitor.launch.schedule import read_schedule, tokens_at
from monitor.launch.speculation import compact
from monitor.model.life import Setting


def test_json_goes_in_and_comes_out_in_a_stable_order() -> None:
    text = (
        '{"zeta":1,"num_speculative_tokens_per_batch_size":[[1,8,5],[9,16,0]],"prompt_lookup_min":2,'
        '"num_speculative_tokens":5,"prompt_lookup_max":4,"method":"ngram","alpha":{"b":[1.5]}}'
    )
    assert compact(Speculation.from_json(text).to_json()) == (
        '{"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4,"prompt_lookup_min":2,'
        '"num_speculative_tokens_per_batch_size":[[1,8,5],[9,16,0]],"alpha":{"b":[1.5]},"zeta":1}'
    )


def test_keys_that_are_null_are_not_given_and_dashes_are_underscores() -> None:
    read = Speculation.from_json({"model": None, "num-speculative-tokens": 3, "max-model-len": 512, "revision": None})
    assert read == Speculation(num_speculative_tokens=3, extra={"max_model_len": 512})


@pytest.mark.parametrize(
    "given",
    [{"method": "[ngram]"}, {"method": "ngram", "model": "ngram"}, {"model": "[ngram]"}, {"model": "ngram"}],
)
def test_every_spelling_of_ngram_is_the_method(given: dict[str, object]) -> None:
    assert Speculation.from_json(given) == Speculation(method="ngram")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "expected a JSON object"),
        ("[1]", "expected a JSON object"),
        ("5", "expected a JSON object"),
        ('{"x": NaN}', "NaN is no JSON number"),
        ("[" * 100_000, "expected a JSON object"),
        ('{"method": 5}', "speculation key method: found 5, expected a name"),
        ('{"model": ""}', "key model"),
        ('{"num_speculative_tokens": -1}', "found -1, expected a whole number of 0 or more"),
        ('{"num_speculative_tokens": true}', "found True"),
        ('{"num_speculative_tokens": 2.0}', "found 2.0"),
        ('{"num_speculative_tokens": "3"}', "found '3'"),
        ('{"draft_tensor_parallel_size": 0}', "expected a whole number of 1 or more"),
        ('{"prompt_lookup_max": 0}', "key prompt_lookup_max"),
        ('{"num_speculative_tokens_per_batch_size": {"1": 2}}', "expected a list of"),
        ('{"num_speculative_tokens_per_batch_size": []}', "expected a list of"),
        ('{"num_speculative_tokens_per_batch_size": "1,2,3"}', "expected a list of"),
        ('{"num_speculative_tokens_per_batch_size": [[1, 4]]}', r"found \[1, 4\], expected \[start, end, tokens\]"),
        ('{"num_speculative_tokens_per_batch_size": [[1, 4, true]]}', "expected .start, end, tokens."),
        ('{"num_speculative_tokens_per_batch_size": [[4, 1, 2]]}', "1 <= start <= end"),
        ('{"num_speculative_tokens_per_batch_size": [[1, 4, -1]]}', "tokens >= 0"),
        ('{"num_speculative_tokens_per_batch_size": [[2, 4, 1]]}', "the first range starts at 2, expected 1"),
        ('{"num_speculative_tokens_per_batch_size": [[1, 4, 1], [4, 8, 1]]}', "overlap"),
    ],
)
def test_a_wrong_value_is_told_with_its_key(given: str, said: str) -> None:
    with pytest.raises(LaunchError, match=said):
        Speculation.from_json(given)


def test_an_extra_that_is_no_json_is_refused() -> None:
    with pytest.raises(LaunchError, match="speculation keys x: expected values of JSON"):
        Speculation.from_json({"x": float("nan")})
    with pytest.raises(LaunchError, match="speculation keys x"):
        Speculation.from_json({"x": object()})


def test_a_schedule_is_kept_in_order_and_carries_its_counts_over_gaps() -> None:
    schedule = read_schedule([[32, 64, 1], [1, 8, 5]])
    assert schedule == ((1, 8, 5), (32, 64, 1))
    assert [tokens_at(schedule, batch, 4) for batch in (1, 8, 9, 31, 32, 64, 65, 1000)] == [4, 4, 4, 4, 1, 1, 1, 1]


def test_extra_cannot_be_changed_from_outside() -> None:
    extra: dict[str, object] = {"max_model_len": 1}
    speculation = Speculation(method="ngram", extra=extra)
    extra["max_model_len"] = 2
    assert speculation.extra == {"max_model_len": 1}
    assert hash(speculation) == hash(Speculation(method="ngram"))


def test_a_stored_setting_changes_count_and_schedule_only() -> None:
    local = Speculation(method="deepseek_mtp", model="m", num_speculative_tokens=1, extra={"max_model_len": 9})
    assert local.setting == Setting(method="mtp", num_speculative_tokens=1, draft_model="m")
    changed = local.with_setting(Setting(method="mtp", num_speculative_tokens=2, schedule=((1, 4, 2),)))
    assert changed == Speculation(
        method="deepseek_mtp",
        model="m",
        num_speculative_tokens=2,
        num_speculative_tokens_per_batch_size=((1, 4, 2),),
        extra={"max_model_len": 9},
    )
    assert local.with_setting(Setting()) == local
    assert local.with_setting(Setting(num_speculative_tokens=0)).is_off


def test_a_stored_setting_of_another_method_is_refused() -> None:
    with pytest.raises(LaunchError, match="method 'eagle': this server is configured for 'ngram'"):
        Speculation(method="ngram").with_setting(Setting(method="eagle", num_speculative_tokens=2))
