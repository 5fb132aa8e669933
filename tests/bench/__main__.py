"""Runs the benchmarks one after the other: `python -m tests.bench [NAME...]`, all of them where none is named."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

#: Module of this package, and the arguments it is run with here, by the name of the benchmark.
BENCHES: dict[str, tuple[str, ...]] = {
    "scrape": ("scrape",),
    "tuner": ("tuner", "--tables", "tests/golden/tuning_tables", "--synthetic", "60"),
    "cycle": ("cycle",),
    "replay": ("replay",),
    "history": ("history",),
    "servers": ("servers",),
    "restart": ("servers", "--days", "30", "--store", "sqlite"),
    "simulator": ("simulator",),
}


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}: expected {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or BENCHES:
        print(f"== {name}", flush=True)
        module, *arguments = BENCHES[name]
        failed |= bool(importlib.import_module(f"tests.bench.{module}").main(arguments))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
