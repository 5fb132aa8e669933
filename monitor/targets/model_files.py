"""Models on this host: a folder, or what the Hugging Face cache holds. Reads their configuration; downloads nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Largest configuration that is read (bytes).
_MOST = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What lies on disk of one model. `stored_bytes` is what its weights take; None where none are there."""

    folder: Path
    config: Mapping[str, object]
    stored_bytes: float | None
    tokenizer: Path | None

    @property
    def text_config(self) -> Mapping[str, object]:
        """The configuration of its text part: models that also see keep it in a mapping of its own."""
        nested = self.config.get("text_config")
        return {**self.config, **nested} if isinstance(nested, Mapping) else self.config


def find_readable(name: str | None, environ: Mapping[str, str] | None = None) -> ModelFiles | None:
    """As `find_model`, but None too where there is no name or its configuration cannot be read."""
    try:
        return find_model(name, environ) if name is not None else None
    except ValueError:
        return None


def count_in(config: Mapping[str, object], name: str) -> int | None:
    """A whole number above 0 in a configuration; None where it says none."""
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def find_model(name: str, environ: Mapping[str, str] | None = None) -> ModelFiles | None:
    """The files of a model by its path or its name (`org/Name`); None where this host has none.

    Raises ValueError, naming the file, where its configuration cannot be read.
    """
    folder = Path(name)
    if (folder / "config.json").is_file():
        return _read(folder)
    for cached in _snapshots(name, os.environ if environ is None else environ):
        if (cached / "config.json").is_file():
            return _read(cached)
    return None


def _snapshots(name: str, environ: Mapping[str, str]) -> list[Path]:
    """Snapshots of a model in the cache, newest first."""
    home = environ.get("HF_HOME")
    base = Path(home) / "hub" if home else Path(environ.get("HOME", str(Path.home()))) / ".cache/huggingface/hub"
    hub = Path(environ.get("HF_HUB_CACHE", str(base)))
    # A name is "org/Name": anything else is no model of the hub, and must not lead out of the cache.
    parts = name.split("/")
    if len(parts) > 2 or any(part in ("", ".", "..") for part in parts):
        return []
    try:
        found = list((hub / f"models--{'--'.join(parts)}" / "snapshots").iterdir())
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []


def _read(folder: Path) -> ModelFiles:
    path = folder / "config.json"
    try:
        if path.stat().st_size > _MOST:
            raise ValueError("it is too large")
        config = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: cannot be read as a configuration ({error})") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path}: found {type(config).__name__}, expected a mapping")
    tokenizer = folder / "tokenizer.json"
    return ModelFiles(folder, config, _stored(folder), tokenizer if tokenizer.is_file() else None)


def _stored(folder: Path) -> float | None:
    """Bytes of the weight files; safetensors alone where both forms lie there."""
    for pattern in ("*.safetensors", "*.bin"):
        sizes = [path.stat().st_size for path in folder.glob(pattern) if path.is_file()]
        if sizes:
            return float(sum(sizes))
    return None
