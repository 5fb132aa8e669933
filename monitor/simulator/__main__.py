"""`python -m monitor.simulator …`: one simulated server."""

from __future__ import annotations

import sys

from monitor.simulator.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
