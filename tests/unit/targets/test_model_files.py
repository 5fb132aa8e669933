"""Models on this host: a folder, the cache, and nothing that leads out of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from monitor.targets.model_files import find_model


def model(folder: Path, config: object = None, **files: bytes) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"vocab_size": 7} if config is None else config))
    for name, content in files.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_bytes(content)
    return folder


def test_a_folder_with_its_weights_and_tokenizer(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", model_safetensors=b"x" * 100, model__2_safetensors=b"x" * 20, old_bin=b"x" * 999,
                   tokenizer_json=b"{}")
    found = find_model(str(folder), {})
    assert found is not None
    assert (found.config, found.stored_bytes) == ({"vocab_size": 7}, 120.0)
    assert found.tokenizer == folder / "tokenizer.json"


def test_without_weights_nothing_is_weighed(tmp_path: Path) -> None:
    found = find_model(str(model(tmp_path / "m")), {})
    assert found is not None and (found.stored_bytes, found.tokenizer) == (None, None)


@pytest.mark.parametrize("variable", ["HOME", "HF_HOME", "HF_HUB_CACHE"])
def test_the_cache_by_name_newest_first(tmp_path: Path, variable: str) -> None:
    hub = {"HOME": tmp_path / ".cache/huggingface/hub", "HF_HOME": tmp_path / "hub", "HF_HUB_CACHE": tmp_path}[variable]
    old = model(hub / "models--org--Name" / "snapshots" / "a", {"vocab_size": 1})
    new = model(hub / "models--org--Name" / "snapshots" / "b", {"vocab_size": 2})
    os.utime(old, (1, 1))
    os.utime(new, (2, 2))
    found = find_model("org/Name", {variable: str(tmp_path)})
    assert found is not None and found.config == {"vocab_size": 2}


@pytest.mark.parametrize("name", ["org/Name", "Name", "a/b/c", "../../etc", "..", "", "org/", "/nowhere"])
def test_what_is_not_there(tmp_path: Path, name: str) -> None:
    model(tmp_path / "etc")
    assert find_model(name, {"HF_HUB_CACHE": str(tmp_path / "hub")}) is None


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000, "3"])
def test_a_configuration_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    folder = model(tmp_path / "m")
    (folder / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json"):
        find_model(str(folder), {})
