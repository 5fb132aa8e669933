"""Where the shipped data lies: rules, migrations and unit files, in the wheel or in a checkout."""

from __future__ import annotations

from pathlib import Path

from monitor.errors import FatalError

_PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """Folder of shipped data called `name` (`rules`, `migrations` or `systemd`).

    In an installed wheel it lies in `monitor/_shipped/`, in a checkout beside the package.
    Raises FatalError where neither is there, since then the installation is broken.
    """
    for folder in (_PACKAGE / "_shipped" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FatalError(f"shipped folder {name!r} is missing from this installation (looked beside {_PACKAGE})")


def rules_folder() -> Path:
    """Folder of the shipped rule files."""
    return shipped("rules")


def migrations_folder() -> Path:
    """Folder of the Alembic environment."""
    return shipped("migrations")


def systemd_folder() -> Path:
    """Folder of the unit files."""
    return shipped("systemd")


def runbook(name: str) -> str | None:
    """The text of a shipped runbook, in Markdown; None where there is none of that name."""
    if not name.replace("-", "").isalnum():
        return None
    for folder in (_PACKAGE / "_shipped" / "runbooks", _PACKAGE.parent / "docs" / "runbooks"):
        path = folder / f"{name}.md"
        if path.is_file():
            return path.read_text("utf-8")
    return None
