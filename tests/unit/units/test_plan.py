"""Plans of changes to files: shown, done once, found done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from monitor.errors import ActionError
from monitor.units.plan import Link, Plan, Put, Remove, Run, run_command


def plan(root: Path, *steps: Put | Link | Remove | Run) -> Plan:
    return Plan(steps, root=root)


class Ran:
    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []

    def __call__(self, argv: Sequence[str]) -> None:
        self.commands.append(tuple(argv))


def test_what_is_pending_is_shown_done_and_then_pending_no_more(tmp_path: Path) -> None:
    one = plan(tmp_path, Put(Path("/etc/a"), "x\n", 0o640), Link(Path("/bin/l"), Path("/etc/a")), Run(("reload",)))
    assert one.diff() == ["--- /dev/null", "+++ /etc/a", "@@ -0,0 +1 @@", "+x", "link /bin/l -> /etc/a", "run reload"]
    ran = Ran()
    one.carry_out(ran)
    assert ran.commands == [("reload",)]
    assert (tmp_path / "etc/a").read_text() == "x\n" and (tmp_path / "etc/a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "bin/l").is_symlink()
    assert (one.pending(), one.diff()) == ((), [])
    one.carry_out(ran)
    assert ran.commands == [("reload",)]


def test_a_changed_file_is_shown_as_a_difference(tmp_path: Path) -> None:
    plan(tmp_path, Put(Path("/a"), "1\n2\n")).carry_out(Ran())
    assert plan(tmp_path, Put(Path("/a"), "1\n3\n")).diff() == ["--- /a", "+++ /a", "@@ -1,2 +1,2 @@", " 1", "-2", "+3"]


def test_what_the_operator_may_edit_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    assert plan(tmp_path, Put(Path("/a"), "shipped", is_theirs=True), Run(("x",))).pending() == ()


def test_removing_keeps_what_was_edited_and_folders_that_others_use(tmp_path: Path) -> None:
    plan(tmp_path, Put(Path("/etc/d/one"), "1"), Put(Path("/etc/e/two"), "2")).carry_out(Ran())
    (tmp_path / "etc/e/two").write_text("edited")
    gone = plan(
        tmp_path, Remove(Path("/etc/d/one"), Path("/etc"), "1"), Remove(Path("/etc/e/two"), Path("/etc"), "2"),
        Remove(Path("/etc/none"), Path("/etc")),
    )  # fmt: skip
    assert gone.kept() == (Path("/etc/e/two"),)
    gone.carry_out(Ran())
    assert not (tmp_path / "etc/d").exists()
    assert (tmp_path / "etc/e/two").read_text() == "edited"


def test_a_step_that_fails_is_named_and_those_before_it_stay(tmp_path: Path) -> None:
    def refuse(argv: Sequence[str]) -> None:
        raise ActionError(f"{argv[0]} says no")

    with pytest.raises(ActionError, match="reload says no"):
        plan(tmp_path, Put(Path("/a"), "1"), Run(("reload",)), Put(Path("/b"), "2")).carry_out(refuse)
    assert (tmp_path / "a").exists() and not (tmp_path / "b").exists()


def test_what_cannot_be_looked_at_stops_everything_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ActionError, match=r"^/file/x: cannot be read \(Not a directory\); run this as root"):
        plan(tmp_path, Put(Path("/a"), "1"), Put(Path("/file/x"), "2")).carry_out(Ran())
    assert not (tmp_path / "a").exists()


def test_a_command_that_fails_says_what_it_said() -> None:
    with pytest.raises(ActionError, match="`sh -c echo no >&2; exit 3`: no"):
        run_command(("sh", "-c", "echo no >&2; exit 3"))
    with pytest.raises(ActionError, match="cannot be run"):
        run_command(("/no/such/program",))
