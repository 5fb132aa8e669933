"""`python -m monitor.tuning.stdin`: one JSON object a line in, one a line out, flushed, until the end."""

from __future__ import annotations

import sys

from monitor.tuning.document import serve


def _write(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.stdin, _write)
