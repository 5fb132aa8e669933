"""The wheel holds all that a daemon needs, and works where there is no checkout.

It is built once and installed into an empty environment. Nothing is downloaded: the environment finds the libraries of
the running one by a `.pth` file, which comes after its own packages; `monitor` itself is only in the wheel.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from monitor import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from what docs/Containerfile copies, so that a container has it too."""
    out, source = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source")
    for line in (ROOT / "docs/Containerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *names, _ = line.split()[1:]
            for name in names:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, source / name)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)],
        capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def acceptd(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed command."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet", "--no-deps", "--no-index",
         "--disable-pip-version-check", str(wheel)],
        capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Only the folder itself: a `.pth` file in it, such as that of an editable install, is not followed from here.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "acceptd"


def run(acceptd: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(acceptd), *arguments], capture_output=True, text=True, timeout=120, cwd=folder, env=environ(folder),
    )


def environ(folder: Path) -> dict[str, str]:
    """Ours without what would lead the installed command back to the checkout."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("ACCEPTD_", "PYTHON"))}
    return {**known, "XDG_STATE_HOME": str(folder / "state")}


def test_it_carries_rules_migrations_templates_tables_and_units(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, pattern, place in (
        ("rules", "*.yaml", "monitor/_shipped/rules"),
        ("migrations", "**/*.py", "monitor/_shipped/migrations"),
        ("systemd", "*", "monitor/_shipped/systemd"),
        ("monitor", "**/*.j2", "monitor"),
        ("monitor", "**/*.html", "monitor"),
        ("monitor/simulator/tables", "*", "monitor/simulator/tables"),
    ):
        files = [path for path in (ROOT / folder).glob(pattern) if path.is_file() and "__pycache__" not in path.parts]
        missing = [str(path) for path in files if f"{place}/{path.relative_to(ROOT / folder)}" not in names]
        assert missing == []
    assert any(name.endswith(".yaml") for name in names) and any(name.endswith(".j2") for name in names)
    assert f"acceptd-{__version__}.data/data/share/man/man1/acceptd.1" in names
    assert any("migrations/versions" in name for name in names)
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


def test_what_it_needs_is_what_the_project_says(wheel: Path) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    needed = [line for line in text.splitlines() if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert len(needed) == len(wanted["dependencies"])
    assert f"\nVersion: {__version__}\n" in text and wanted["version"] == __version__


def test_it_is_the_wheel_that_runs(acceptd: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(acceptd.parent / "python"), "-c", "import monitor; print(monitor.__file__)"], capture_output=True,
        text=True, cwd=tmp_path, timeout=60, env=environ(tmp_path),
    )
    assert Path(done.stdout.strip()).is_relative_to(acceptd.parents[1])
    assert run(acceptd, tmp_path, "--version").stdout == f"acceptd {__version__}\n"


def test_it_finds_its_rules(acceptd: Path, tmp_path: Path) -> None:
    done = run(acceptd, tmp_path, "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "fine (0 servers" in done.stdout
    (tmp_path / "acceptd.yaml").write_text("rules: {tuning: goodput}\nservers: [{name: a, url: 'http://127.0.0.1:1'}]\n")
    assert "fine (1 server" in run(acceptd, tmp_path, "check").stdout


def test_it_finds_its_migrations(acceptd: Path, tmp_path: Path) -> None:
    done = run(acceptd, tmp_path, "--data-dir", str(tmp_path / "data"), "db", "upgrade", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    versions = [path for path in (ROOT / "migrations/versions").glob("*.py") if path.name != "__init__.py"]
    assert len(json.loads(done.stdout)["steps"]) == len(versions)
    assert (tmp_path / "data" / "local.db").is_file()


def test_it_makes_a_report_and_reads_a_page(acceptd: Path, tmp_path: Path) -> None:
    """Templates and name tables are found."""
    sample = ROOT / "tests/golden/exposition/samples/dup_series_same_page.prom"
    done = run(acceptd, tmp_path, "read", str(sample), "--json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "ok")
    done = run(acceptd, tmp_path, "tune", "--stdin")
    assert done.returncode == 0


def test_the_daemon_runs_from_it(acceptd: Path, tmp_path: Path) -> None:
    config = tmp_path / "acceptd.yaml"
    config.write_text(f"data_dir: {tmp_path}/data\nweb: {{listen: '127.0.0.1:0'}}\n")
    with subprocess.Popen(
        [str(acceptd), "run"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as daemon:
        assert daemon.stdout is not None
        try:
            lines = []
            for line in daemon.stdout:
                lines.append(line)
                if "status page" in line:
                    break
            done = run(acceptd, tmp_path, "report", "--format", "html")
            assert (done.returncode, done.stderr) == (0, ""), lines
            assert done.stdout.startswith("<!doctype html>") or "<html" in done.stdout
        finally:
            daemon.terminate()
        rest = daemon.stdout.read()
        assert daemon.wait(timeout=60) == 0, "".join(lines) + rest
