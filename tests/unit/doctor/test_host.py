"""What the doctor says of the host, its unit and its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr

from monitor.config.model import Config
from monitor.doctor.files import check_data_folder, check_secrets
from monitor.doctor.finding import Area, Finding, State, Subject
from monitor.doctor.host import check_clock, check_gpus
from monitor.doctor.unit import check_unit, seconds
from monitor.shipped import systemd_folder
from monitor.targets.gpus import Gpu

UNIT = systemd_folder() / "acceptd.service"


def said(findings: Sequence[Finding]) -> dict[str, State]:
    return {one.sentence: one.state for one in findings}


def test_a_problem_always_has_something_to_do_about_it() -> None:
    with pytest.raises(ValueError, match="without something to do"):
        Subject(Area.HOST, "x").problem("it is broken", "")


@pytest.mark.parametrize(
    ("answer", "state"), [("yes\n", State.OK), ("no\n", State.PROBLEM), (None, State.NOTE)]
)
def test_a_clock_that_nobody_sets_is_a_problem(answer: str | None, state: State) -> None:
    assert check_clock(lambda command: answer).state is state


def test_a_card_without_room_is_told() -> None:
    full, free = Gpu("A", 24e9, 23.9e9), Gpu("B", 24e9, 20e9)
    assert [one.state for one in check_gpus([full, free])] == [State.NOTE, State.OK]


class TestUnit:
    def look(self, interval: float = 60.0, **changed: str) -> dict[str, State]:
        shown = {
            "LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "WatchdogUSec": "5min",
            "NRestarts": "0", "FragmentPath": str(UNIT), "User": "acceptd", **changed,
        }  # fmt: skip
        return said(list(check_unit(interval, lambda command: "".join(f"{k}={v}\n" for k, v in shown.items()))))

    def test_all_is_well(self) -> None:
        assert self.look() == {"runs": State.OK}

    def test_without_systemd_or_unit_it_is_noted(self) -> None:
        assert said(list(check_unit(60.0, lambda command: None))) == {"no systemd here": State.NOTE}
        assert self.look(LoadState="not-found") == {"not installed": State.NOTE}

    def test_what_does_not_run_or_start_is_a_problem(self) -> None:
        found = self.look(ActiveState="failed", UnitFileState="disabled")
        assert found == {"is failed": State.PROBLEM, "is disabled: it does not start at boot": State.PROBLEM}

    def test_restarts_are_told(self) -> None:
        assert self.look(NRestarts="4") == {
            "runs, and was started again 4 times since boot or reset": State.NOTE
        }

    def test_a_watchdog_that_would_end_a_slow_turn_is_a_problem(self) -> None:
        found = self.look(interval=120.0)
        assert found["WatchdogSec is 300 s and rules.interval 120 s: a slow turn would be killed"] is State.PROBLEM

    def test_a_unit_of_another_version_is_told(self, tmp_path: Path) -> None:
        other = tmp_path / "acceptd.service"
        other.write_text(UNIT.read_text().replace("WatchdogSec=300", "WatchdogSec=600"))
        assert self.look(FragmentPath=str(other))[f"{other} differs from the one of this version"] is State.NOTE

    @pytest.mark.parametrize(
        ("text", "expected"), [("5min", 300.0), ("1min 30s", 90.0), ("infinity", None), ("0", None), ("500ms", 0.5)]
    )
    def test_durations_of_systemd(self, text: str, expected: float | None) -> None:
        assert seconds(text) == expected


class TestFiles:
    def config(self, **settings: object) -> Config:
        return Config.model_validate(settings)

    def test_a_secret_that_everybody_may_read_is_a_problem(self, tmp_path: Path) -> None:
        file, token = tmp_path / "acceptd.yaml", tmp_path / "token"
        for path in (file, token):
            path.write_text("x")
        config = self.config(
            servers=[{"name": "a", "url": "http://127.0.0.1:1", "auth": {"bearer_token": "geheim"}}],
            web={"token_file": str(token)},
        )
        for mode, state in ((0o644, State.PROBLEM), (0o640, State.NOTE)):
            file.chmod(mode)
            token.chmod(mode)
            found = list(check_secrets(file, config))
            assert found[0].state is state and "servers[0].auth.bearer_token" in found[0].sentence
            assert found[1].state is (State.PROBLEM if mode == 0o644 else State.OK)
            assert "geheim" not in str(found)

    def test_without_secrets_nothing_is_said(self, tmp_path: Path) -> None:
        assert list(check_secrets(tmp_path / "acceptd.yaml", self.config())) == []
        assert SecretStr("x") not in [one.sentence for one in check_secrets(None, self.config())]

    def test_the_data_folder(self, tmp_path: Path) -> None:
        assert [one.state for one in check_data_folder(tmp_path / "new")] == [State.NOTE]
        folder = tmp_path / "data"
        folder.mkdir(mode=0o750)
        assert [one.state for one in check_data_folder(folder)] in ([State.OK], [State.PROBLEM])  # a full disk
        folder.chmod(0o755)
        assert "may be read by everybody" in next(iter(check_data_folder(folder))).sentence
