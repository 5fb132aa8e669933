"""A child that survives its simulated server, as an engine process does whose parent was killed; it ends by itself."""

from __future__ import annotations

import sys

from monitor.clock import SystemClock

if __name__ == "__main__":
    SystemClock().sleep(float(sys.argv[1]))
