"""`python -m tests.supply.audit`: asks pip-audit for known vulnerabilities of what is installed; fails where some are.

Where its database cannot be reached that is said loudly, and is no failure: it says nothing about the packages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_COMMAND = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable"]
_TIMEOUT_SECONDS = 300


def main() -> int:
    """0 where nothing is known or nothing could be asked, 1 where something is known."""
    try:
        done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return _not_asked("no answer in time")
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return _not_asked((done.stderr or done.stdout).strip()[-300:])
    return report(packages)


def report(packages: list[dict[str, Any]]) -> int:
    """Say what is known of these packages."""
    asked = [one for one in packages if "skip_reason" not in one]
    known = [(one, flaw) for one in asked for flaw in one.get("vulns", ())]
    for one, flaw in known:
        fixed = ", ".join(flaw.get("fix_versions", ())) or "no release yet"
        print(f"VULNERABLE {one['name']} {one['version']}: {flaw['id']} (fixed in {fixed})")
    if packages and len(asked) <= 1:
        return _not_asked(f"none of {len(packages)} packages is known to the database")
    print(f"{len(asked)} packages audited, {len(packages) - len(asked)} not known, {len(known)} vulnerabilities")
    return 1 if known else 0


def _not_asked(why: str) -> int:
    print(f"*** NOT AUDITED: {why}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
