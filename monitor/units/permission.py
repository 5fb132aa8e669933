"""The polkit rule that lets the daemon act on exactly its units, and on nothing else: read and written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from monitor.errors import ActionError
from monitor.shipped import systemd_folder
from monitor.units.plan import Put

RULE = Path("/etc/polkit-1/rules.d/50-acceptd.rules")
_LIST = re.compile(r"^(\s*var units = )(\[.*\])(;)$", re.MULTILINE)


def permitted(root: Path = Path("/")) -> frozenset[str]:
    """The units that the rule on this host names; none where there is no rule.

    Raises ActionError where somebody made it unreadable: what it allows must not be guessed.
    """
    path = root / RULE.relative_to("/")
    try:
        found = _LIST.search(path.read_text())
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise ActionError(f"{RULE}: cannot be read ({error.strerror}); run this as root", reason="install") from error
    if found is None:
        raise ActionError(f"{RULE}: found no line `var units = [...];`, expected the rule of acceptd", reason="install")
    return frozenset(json.loads(found[2]))


def rule(units: Iterable[str]) -> Put:
    """The rule for these units."""
    text = (systemd_folder() / "acceptd.rules").read_text()
    names = json.dumps(sorted(units))
    return Put(RULE, _LIST.sub(lambda match: f"{match[1]}{names}{match[3]}", text))
