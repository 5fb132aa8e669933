"""The shipped catalog, and models by their names."""

from __future__ import annotations

from monitor.advise.catalog import Catalog, load_catalog
from monitor.advise.issues import KnownIssue, load_issues
from monitor.advise.memory import Room
from monitor.advise.shapes import ModelShape
from monitor.shipped import rules_folder

GIB = 1024.0**3
L8, L70 = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"
L1, L3 = "meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-3B-Instruct"
QWEN7, QWEN05 = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
MISTRAL = "mistralai/Mistral-7B-Instruct-v0.3"


def catalog() -> Catalog:
    path = rules_folder() / "pairs.yaml"
    return load_catalog(path.read_text(), str(path))


def issues() -> tuple[KnownIssue, ...]:
    path = rules_folder() / "known_issues.yaml"
    return load_issues(path.read_text(), str(path))


def shape(name: str) -> ModelShape:
    found = catalog().shape(name)
    assert found is not None, name
    return found


def room(gpu: float = 24 * GIB, *, concurrency: float | None = 8.0, prompt: float = 800.0, output: float = 300.0,
         tensor_parallel: int = 1) -> Room:
    return Room(gpu_bytes=gpu, concurrency=concurrency, prompt_tokens=prompt, output_tokens=output,
                tensor_parallel=tensor_parallel)
