"""Several sources of one setting: who gives each part, and the sentences where they disagree."""

from __future__ import annotations

import pytest

from monitor.intervals.sayings import weigh
from monitor.model.life import Said, Setting, SettingSource

PAGE, LINE, FILE, INFO, CONFIG = (
    SettingSource.PAGE, SettingSource.COMMAND_LINE, SettingSource.LAUNCH_FILE, SettingSource.SERVER_INFO,
    SettingSource.CONFIG,
)  # fmt: skip


def said(source: SettingSource, tokens: int | None = None, method: str | None = None, **more: object) -> Said:
    adapts, note = more.pop("adapts", None), more.pop("note", None)
    setting = Setting(num_speculative_tokens=tokens, method=method, **more)  # type: ignore[arg-type]
    return Said(source=source, setting=setting, adapts=adapts, note=note)  # type: ignore[arg-type]


def test_the_first_source_that_knows_a_part_gives_it() -> None:
    known = weigh(
        (said(LINE, method="eagle3", draft_model="org/head"), said(FILE, 4), said(CONFIG, schedule=((1, 8, 3),)))
    )
    assert known.setting == Setting(
        method="eagle3", num_speculative_tokens=4, draft_model="org/head", schedule=((1, 8, 3),)
    )
    assert known.sources == {
        "method": LINE, "draft_model": LINE, "num_speculative_tokens": FILE, "schedule": CONFIG,
    }  # fmt: skip
    assert known.notes == ()


def test_nothing_said_is_nothing_known() -> None:
    for nothing in ((), (said(LINE),)):
        known = weigh(nothing)
        assert (known.setting, known.sources, known.notes) == (Setting(), {}, ())


def test_off_is_a_number_and_not_unknown() -> None:
    known = weigh((said(LINE, 0), said(CONFIG, 3, "ngram", schedule=((1, 8, 3),))))
    assert known.setting.is_off
    assert known.setting.schedule == ()
    assert known.sources["num_speculative_tokens"] is LINE
    assert known.notes == ("num_speculative_tokens: command line says 0 (off), config says 3",)


def test_a_page_that_shows_none_does_not_overrule_who_asks_for_some() -> None:
    known = weigh((said(PAGE, 0), said(LINE, 3, "ngram")))
    assert known.setting == Setting(method="ngram", num_speculative_tokens=3)
    assert known.notes == ("num_speculative_tokens: page says 0 (off), command line says 3",)


def test_a_page_that_counts_drafts_refutes_every_off() -> None:
    known = weigh((said(LINE, 0),), has_drafted=True)
    assert known.setting.num_speculative_tokens is None
    assert known.notes == ("num_speculative_tokens: command line says 0 (off), but the page counts drafts",)
    assert weigh((said(LINE, 0), said(CONFIG, 3)), has_drafted=True).setting.num_speculative_tokens == 3


def test_every_source_that_knows_the_part_is_named() -> None:
    known = weigh((said(PAGE, 3), said(LINE, 5), said(INFO, 5), said(CONFIG)))
    assert known.setting.num_speculative_tokens == 3
    assert known.notes == ("num_speculative_tokens: page says 3, command line says 5, server_info says 5",)


@pytest.mark.parametrize(
    "other",
    [
        {"method": "eagle3"},
        {"draft_model": "org/other"},
        {"schedule": ((1, 4, 2),)},
    ],
)
def test_the_other_parts_are_compared_too(other: dict[str, object]) -> None:
    line = said(LINE, 3, "ngram", draft_model="org/draft", schedule=((1, 8, 3),))
    [note] = weigh((line, said(INFO, 3, **other))).notes  # type: ignore[arg-type]
    assert note.startswith(f"{next(iter(other))}: command line says ")


@pytest.mark.parametrize(
    "path", ["org/draft", "/models/draft", "/root/.cache/huggingface/hub/models--org--draft/snapshots/0a1b2c/"]
)
def test_one_draft_model_under_two_names_is_no_disagreement(path: str) -> None:
    assert weigh((said(LINE, 3, draft_model="org/draft"), said(INFO, 3, draft_model=path))).notes == ()


def test_the_method_of_who_says_off_is_not_compared() -> None:
    assert weigh((said(LINE, 0, "ngram"), said(FILE, 0, "eagle3"))).notes == ()


def test_a_number_that_the_engine_moves_itself_differs_from_its_start_by_design() -> None:
    known = weigh((said(PAGE, 2), said(LINE, 5, "eagle", adapts="adaptive mode")))
    assert (known.adapts, known.notes) == ("adaptive mode", ())
    known = weigh((said(PAGE, 2), said(LINE, 5, adapts="adaptive mode"), said(CONFIG, 4)))
    assert known.notes == ("num_speculative_tokens: command line says 5, config says 4",)


def test_what_hinders_a_source_is_noted() -> None:
    assert weigh((said(PAGE, 2), said(LINE, note="command line not used: why"))).notes == (
        "command line not used: why",
    )
