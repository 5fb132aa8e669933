"""What a unit starts, from what the bus says and the files lie on disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitor.drivers.launch_file import LaunchFile
from monitor.drivers.systemctl import UnitCommandLine
from monitor.drivers.unit_command import UnitCommand, is_edited, read_unit_command, replaced_command
from monitor.drivers.unit_launcher import UnitLauncher
from monitor.errors import ActionError, LaunchError
from monitor.launch.unit_text import split_words
from monitor.model.life import Setting
from monitor.model.server import Engine
from tests.fakes.fake_clock import FakeClock

LAUNCH = Path("/var/lib/acceptd/launch/x.service.env")
OWN = "--speculative-config '{\"method\":\"ngram\",\"num_speculative_tokens\":2,\"prompt_lookup_max\":4}'"
NGRAM = Setting(method="ngram", num_speculative_tokens=2)


def line(*items: str, environment: tuple[str, ...] = (), files: tuple[tuple[str, bool], ...] = ()) -> UnitCommandLine:
    return UnitCommandLine(items[0], items, (), environment, files, 1)


def read(root: Path, given: UnitCommandLine, **more: object) -> UnitCommand:
    def outside(path: Path) -> Path:
        return root / path.relative_to("/")

    return read_unit_command(given, unit="x.service", launch_file=LAUNCH, outside=outside, **more)  # type: ignore[arg-type]


def put(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


TEMPLATE = line(
    "/usr/bin/env", "$SERVER_COMMAND", "$ACCEPTD_SPECULATION", "--last",
    files=(("/etc/acceptd/servers/x.env", False), (str(LAUNCH), True)),
)  # fmt: skip


def test_the_operators_file_gives_the_words_and_acceptds_file_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "/etc/acceptd/servers/x.env", "SERVER_COMMAND=vllm serve m\nACCEPTD_SPECULATION=--a 1\n")
    put(tmp_path, str(LAUNCH), "ACCEPTD_SPECULATION=--b 2\n")
    command = read(tmp_path, TEMPLATE)
    assert (command.before, command.own, command.after) == (
        ("/usr/bin/env", "vllm", "serve", "m"), ("--a", "1"), ("--last",),
    )  # fmt: skip
    assert command.sources == (Path("/etc/acceptd/servers/x.env"),)
    assert command.problems == ()


def test_a_drop_in_of_ours_is_a_source_and_the_unit_only_where_nothing_else_is(tmp_path: Path) -> None:
    given = line("vllm", "$ACCEPTD_SPECULATION", environment=("ACCEPTD_SPECULATION=",), files=((str(LAUNCH), True),))
    ours = "/etc/systemd/system/x.service.d/50-acceptd.conf"
    known = read(tmp_path, given, drop_ins=("/etc/other.conf", ours), fragment="/etc/x.service")
    assert known.sources == (Path(ours),)
    assert read(tmp_path, given, fragment="/etc/x.service").sources == (Path("/etc/x.service"),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (line("vllm", "serve", "m"), r"does not pass \$ACCEPTD_SPECULATION .*`acceptd adopt x.service`"),
        (line("vllm", "$ACCEPTD_SPECULATION"), r"does not read /var/lib/acceptd/launch/x.service.env"),
        (line("vllm", "${ACCEPTD_SPECULATION}"), r"does not pass \$ACCEPTD_SPECULATION"),
        (line("vllm", "$ACCEPTD_SPECULATION", "$ACCEPTD_SPECULATION", files=((str(LAUNCH), True),)), "more than once"),
        (line("vllm", "$ACCEPTD_SPECULATION", files=(("/etc/gone.env", False), (str(LAUNCH), True))), "is not there"),
        (UnitCommandLine("", (), (), (), (), 0), "has 0 commands in ExecStart="),
    ],
)
def test_what_keeps_a_unit_from_taking_other_words(tmp_path: Path, given: UnitCommandLine, said: str) -> None:
    assert re.search(said, "; ".join(read(tmp_path, given).problems))


def test_a_file_that_may_not_be_read_is_named_where_the_command_needs_it(tmp_path: Path) -> None:
    put(tmp_path, "/etc/closed.env", "")
    (tmp_path / "etc/closed.env").unlink()
    (tmp_path / "etc/closed.env").mkdir()  # reading it fails for root too
    files = (("/etc/closed.env", False), (str(LAUNCH), True))
    needed = read(tmp_path, line("vllm", "$ARGS", "$ACCEPTD_SPECULATION", files=files))
    assert needed.problems == (
        "$ARGS of its command line cannot be known: /etc/closed.env may not be read by this user",
    )
    assert read(tmp_path, line("vllm", "$ACCEPTD_SPECULATION", files=files)).problems == ()


def test_files_by_a_pattern_are_read_in_order(tmp_path: Path) -> None:
    put(tmp_path, "/etc/many/1.env", "A=1\nB=1\n")
    put(tmp_path, "/etc/many/2.env", "B=2\n")
    command = read(tmp_path, line("x", "$A", "$B", files=(("/etc/many/*.env", False),)))
    assert command.before == ("x", "1", "2")


def test_an_edit_of_what_a_drop_in_replaces_is_seen() -> None:
    unit = "[Service]\nEnvironment=A=1\nExecStart=/bin/a \\\n  b\n"
    drop_in = f"[Service]\nX-AcceptdReplaces={replaced_command([unit])}\nExecStart=\nExecStart=/bin/a b $X\n"
    assert not is_edited(drop_in, [unit])
    assert not is_edited(drop_in, [unit.replace("A=1", "A=2")])
    assert is_edited(drop_in, [unit.replace("  b", "  c")])
    assert is_edited(drop_in, [unit, "[Service]\nExecStart=\nExecStart=/bin/z\n"])
    assert not is_edited("[Service]\nEnvironmentFile=-/x\n", [unit])


def command(own: str = OWN, environ: dict[str, str] | None = None, problems: tuple[str, ...] = ()) -> UnitCommand:
    return UnitCommand(("vllm", "serve", "m"), split_words(own), ("--port", "1"), environ or {}, (), problems)


def launcher(given: UnitCommand, version: str = "0.32.0") -> UnitLauncher:
    return UnitLauncher(Engine.VLLM, lambda: given, version=lambda: version, clock=FakeClock())


class TestWords:
    def test_the_operators_own_setting_needs_none(self) -> None:
        assert launcher(command()).words(NGRAM) is None

    def test_another_setting_is_the_flags_alone_and_off_is_nothing(self) -> None:
        words = launcher(command()).words(Setting(method="ngram", num_speculative_tokens=3))
        assert words == (
            "--speculative-config", '{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}',
        )  # fmt: skip
        assert launcher(command()).words(Setting(num_speculative_tokens=0)) == ()

    def test_what_the_operator_gives_beside_speculation_stays(self) -> None:
        words = launcher(command(f"--max-num-seqs 8 {OWN}")).words(Setting(num_speculative_tokens=0))
        assert words == ("--max-num-seqs", "8")

    def test_flags_outside_of_the_variable_are_refused(self) -> None:
        given = UnitCommand(("vllm", "serve", "m", *command().own), (), (), {}, (), ())
        with pytest.raises(LaunchError, match=r"outside of \$ACCEPTD_SPECULATION"):
            launcher(given).words(Setting(method="ngram", num_speculative_tokens=3))

    def test_a_unit_that_passes_nothing_can_keep_its_own_setting_only(self) -> None:
        broken = launcher(command(problems=("x.service does not pass it",)))
        assert broken.words(NGRAM) is None
        with pytest.raises(LaunchError, match="does not pass it"):
            broken.words(Setting(method="ngram", num_speculative_tokens=3))

    def test_a_variable_that_the_engine_needs_must_be_in_the_unit(self) -> None:
        # EAGLE-3 exists on engine V1 alone, which vLLM 0.8 takes for speculation only where told to.
        eagle3 = "--speculative-config '{\"method\":\"eagle3\",\"model\":\"d\",\"num_speculative_tokens\":2}'"
        three = Setting(method="eagle3", num_speculative_tokens=3, draft_model="d")
        with pytest.raises(LaunchError, match="needs VLLM_USE_V1=1 in the unit's environment"):
            launcher(command(eagle3), "0.8.5").words(three)
        assert launcher(command(eagle3, {"VLLM_USE_V1": "1"}), "0.8.5").words(three)


def test_the_last_known_command_holds_while_systemd_does_not_answer() -> None:
    clock, answers = FakeClock(), [command()]

    def ask() -> UnitCommand:
        if not answers:
            raise ActionError("systemd is busy", reason="systemd", retryable=True)
        return answers.pop()

    one = UnitLauncher(Engine.VLLM, ask, version=lambda: None, clock=clock)
    first = one.base_hash
    clock.advance(60)
    assert one.base_hash == first
    with pytest.raises(ActionError):
        _ = UnitLauncher(Engine.VLLM, ask, version=lambda: None, clock=clock).base_hash


class TestLaunchFile:
    @pytest.fixture
    def file(self, tmp_path: Path) -> LaunchFile:
        return LaunchFile(tmp_path, "x.service")

    def test_words_and_hash_come_back(self, file: LaunchFile, tmp_path: Path) -> None:
        assert file.words() is None and file.base_hash() == ""
        source = tmp_path / "own.env"
        source.write_text("mine")
        file.write(("--a", "b c"), base_hash="abc123", sources=[source, Path("/gone")], remark="ngram, 3 tokens")
        assert (file.words(), file.base_hash()) == (("--a", "b c"), "abc123")
        assert (tmp_path / "x.service.key").read_text().split("  ")[1] == f"{source}\n"
        assert (tmp_path / "x.service.env").stat().st_mode & 0o777 == 0o640

    def test_the_one_before_is_kept_and_not_the_one_that_failed(self, file: LaunchFile, tmp_path: Path) -> None:
        for words in (("--a", "1"), ("--a", "2"), ("--a", "1")):
            file.write(words, base_hash="h", sources=[], remark="r")
        assert (tmp_path / "x.service.last.env").read_text() == (tmp_path / "x.service.env").read_text()
        file.remove()
        assert file.words() is None
        file.remove()

    def test_a_void_one_is_put_aside(self, file: LaunchFile, tmp_path: Path) -> None:
        assert not file.void()
        file.write((), base_hash="h", sources=[], remark="off")
        assert file.words() == ()
        assert file.void() and file.words() is None
        assert (tmp_path / "x.service.void.env").exists()

    def test_a_folder_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        blocked = LaunchFile(tmp_path / "file", "x.service")
        with pytest.raises(ActionError, match=r"x\.service\.env: cannot be") as caught:
            blocked.write((), base_hash="h", sources=[], remark="r")
        assert caught.value.reason == "launch_file"
