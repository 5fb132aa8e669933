from __future__ import annotations

import pytest

from monitor.model.outcome import ChangeKind, TuneChange


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (TuneChange(ChangeKind.STEP, 1), "+1"),
        (TuneChange(ChangeKind.STEP, -2), "-2"),
        (TuneChange(ChangeKind.SET, 4), "4"),
        (TuneChange(ChangeKind.OFF), "off"),
        (TuneChange(ChangeKind.TUNER), "tuner"),
    ],
)
def test_a_change_reads_as_in_the_file(change: TuneChange, text: str) -> None:
    assert change.describe() == text


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [(ChangeKind.STEP, None), (ChangeKind.OFF, 1), (ChangeKind.TUNER, 2), (ChangeKind.STEP, 0), (ChangeKind.SET, 0),
     (ChangeKind.SET, -1)],
)
def test_impossible_changes_are_refused(kind: ChangeKind, tokens: int | None) -> None:
    with pytest.raises(ValueError, match="tokens"):
        TuneChange(kind, tokens)
