"""A plan of changes to a host's files: what would be done, shown as a difference, then done. It knows no unit.

What is there already is left alone, so that a plan may be carried out again at any time.
"""

from __future__ import annotations

import difflib
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from monitor.drivers.record import write_durably
from monitor.errors import ActionError

#: Longest wait for one command (seconds).
_WAIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Put:
    """A file with this text. One that the operator may edit (`is_theirs`) is only made where it is missing."""

    path: Path
    text: str
    mode: int = 0o644
    is_theirs: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    path: Path
    target: Path


@dataclass(frozen=True, slots=True)
class Remove:
    """A file that is to be gone, and folders that it leaves empty up to `keep`. `unless` guards an edited one."""

    path: Path
    keep: Path
    unless_not: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A command that makes the system see changed files; run only where one was changed, or always."""

    argv: tuple[str, ...]
    always: bool = False


Step = Put | Link | Remove | Run


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, and remarks for people. `root` is the root of the host (elsewhere in tests)."""

    steps: tuple[Step, ...]
    remarks: tuple[str, ...] = ()
    root: Path = field(default=Path("/"))

    def pending(self) -> tuple[Step, ...]:
        """The steps that would change something; commands only where a file changes."""
        files = [step for step in self.steps if not isinstance(step, Run) and not self._is_done(step)]
        return tuple(
            step for step in self.steps if step in files or (isinstance(step, Run) and (files or step.always))
        )

    def kept(self) -> tuple[Path, ...]:
        """Files that were to be removed and were edited by somebody, so that they stay."""
        return tuple(
            step.path for step in self.steps
            if isinstance(step, Remove) and step.unless_not is not None
            and (text := self._text(step.path)) is not None and text != step.unless_not
        )  # fmt: skip

    def diff(self) -> list[str]:
        """What would be done, for people: differences of files, links, commands."""
        lines: list[str] = []
        for step in self.pending():
            if isinstance(step, Run):
                lines.append(f"run {' '.join(step.argv)}")
            elif isinstance(step, Link):
                lines.append(f"link {step.path} -> {step.target}")
            else:
                before, after = self._text(step.path) or "", step.text if isinstance(step, Put) else ""
                there = self._text(step.path) is not None
                names = (str(step.path) if there else "/dev/null", str(step.path) if after else "/dev/null")
                lines += difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=2)
        return lines

    def carry_out(self, run: Callable[[Sequence[str]], None] | None = None) -> None:
        """Do what is pending, in order. Raises ActionError naming the step that failed; those before it are done."""
        for step in self.pending():
            try:
                self._do(step, run or run_command)
            except OSError as error:
                what = step.argv[0] if isinstance(step, Run) else step.path
                raise ActionError(f"{what}: {error.strerror or error}", reason="install") from error

    def _do(self, step: Step, run: Callable[[Sequence[str]], None]) -> None:
        if isinstance(step, Run):
            run(step.argv)
        elif isinstance(step, Put):
            write_durably(self._at(step.path), step.text.encode(), step.mode)
        elif isinstance(step, Link):
            self._at(step.path).parent.mkdir(parents=True, exist_ok=True)
            self._at(step.path).unlink(missing_ok=True)
            self._at(step.path).symlink_to(step.target)
        else:
            self._at(step.path).unlink()
            for folder in step.path.parents:
                if folder == step.keep or any(self._at(folder).iterdir()):
                    break
                self._at(folder).rmdir()

    def _is_done(self, step: Put | Link | Remove) -> bool:
        path = self._at(step.path)
        if isinstance(step, Link):
            return path.is_symlink() and os.readlink(path) == str(step.target)
        there = self._text(step.path)
        if isinstance(step, Remove):
            return there is None or (step.unless_not is not None and there != step.unless_not)
        return there is not None and (step.is_theirs or there == step.text)

    def _text(self, path: Path) -> str | None:
        """What lies at a path, a link as what it is; None where nothing does."""
        try:
            at = self._at(path)
            return f"link to {os.readlink(at)}\n" if at.is_symlink() else at.read_text()
        except FileNotFoundError:
            return None
        except OSError as error:
            said = f"{path}: cannot be read ({error.strerror}); run this as root"
            raise ActionError(said, reason="install") from error

    def _at(self, path: Path) -> Path:
        return self.root / path.relative_to("/")


def run_command(argv: Sequence[str]) -> None:
    """Run one command of the system. Raises ActionError with what it said where it fails."""
    try:
        done = subprocess.run(
            list(argv), capture_output=True, text=True, timeout=_WAIT_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ActionError(f"`{' '.join(argv)}` cannot be run ({error})", reason="install") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ActionError(f"`{' '.join(argv)}`: {said[-1] if said else f'exit {done.returncode}'}", reason="install")
