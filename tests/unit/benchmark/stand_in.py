"""A stand-in for `vllm.benchmarks.serve`, for interpreters without vLLM: its entry points, options and result file."""

from __future__ import annotations

from pathlib import Path

SOURCE = '''
import json, os, sys, time

def add_cli_args(parser):
    for name in ("backend", "base-url", "endpoint", "model", "tokenizer", "num-prompts", "max-concurrency", "seed",
                 "result-dir", "result-filename", "dataset-name", "dataset-path", "custom-output-len",
                 "sharegpt-output-len", "request-rate", "temperature"):
        parser.add_argument("--" + name)
    parser.add_argument("--save-result", action="store_true")

def main(args):
    trouble = os.environ.get("TROUBLE", "")
    if trouble == "hang":
        time.sleep(600)
    if trouble == "break":
        raise ConnectionError("nobody listens with key " + os.environ.get("OPENAI_API_KEY", "none"))
    total = int(args.num_prompts)
    sys.stderr.write("\\r 100%|###   | 2/2 [00:01<00:01]\\n")
    for done in range(total + 1):
        sys.stderr.write("\\r %3d%%|###   | %d/%d [00:01<00:01]" % (100 * done / total, done, total))
        sys.stderr.flush()
    failed = total if trouble == "refuse" else 0
    run = int(args.result_filename[3])
    with open(os.path.join(args.result_dir, args.result_filename), "w") as file:
        json.dump({
            "completed": total - failed, "failed": failed, "output_throughput": 400.0 + 10.0 * run, "duration": 2.0,
            "mean_tpot_ms": 8.0, "mean_ttft_ms": 30.0, "spec_decode_acceptance_rate": 62.5,
            "spec_decode_acceptance_length": 2.25, "args": vars(args), "key": os.environ.get("OPENAI_API_KEY"),
            "prompts": open(args.dataset_path).read(),
        }, file)
'''


def install(folder: Path) -> dict[str, str]:
    """Put it where an interpreter finds it; the environment that makes it so."""
    package = folder / "vllm" / "benchmarks"
    package.mkdir(parents=True)
    for place in (package.parent, package):
        (place / "__init__.py").write_text("")
    (package / "serve.py").write_text(SOURCE)
    return {"PYTHONPATH": str(folder)}
