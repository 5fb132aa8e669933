"""`python -m tests.supply.sbom [FILE]`: the parts that an installed acceptd needs, as CycloneDX 1.5 JSON.

Made from the metadata of what is installed, extras left out. https://cyclonedx.org/docs/1.5/json/
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

_ROOT = "acceptd"


def needed(name: str = _ROOT) -> dict[str, tuple[Distribution, list[str]]]:
    """Every distribution that `name` needs here, itself first, by its name, each with the names that it needs."""
    found: dict[str, tuple[Distribution, list[str]]] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(name, frozenset())]
    while waiting:
        wanted, extras = waiting.pop()
        key = _key(wanted)
        if key in found and not extras:
            continue
        try:
            installed = distribution(wanted)
        except PackageNotFoundError:
            continue  # for another platform
        below = [one for one in map(Requirement, installed.requires or ()) if _applies(one, extras)]
        names = found[key][1] if key in found else []
        found[key] = installed, sorted({*names, *(_key(one.name) for one in below)})
        waiting += [(one.name, frozenset(one.extras)) for one in below if _key(one.name) not in found or one.extras]
    return found


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in (*extras, ""))


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def document() -> dict[str, Any]:
    """The whole document."""
    found = needed()
    parts = [_component(installed) for installed, _ in found.values()]
    by_name = {part["name"]: part["bom-ref"] for part in parts}
    depends = [
        {"ref": by_name[name], "dependsOn": [by_name[one] for one in below if one in by_name]}
        for name, (_, below) in found.items()
    ]
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {**parts[0], "type": "application"}},
        "components": parts[1:], "dependencies": depends,
    }  # fmt: skip


def _component(installed: Distribution) -> dict[str, Any]:
    name, version = _key(installed.metadata["Name"]), installed.version
    reference = f"pkg:pypi/{name}@{version}"
    part: dict[str, Any] = {
        "type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference
    }
    licence = installed.metadata.get("License-Expression") or installed.metadata.get("License")
    if licence and "\n" not in licence and len(licence) < 80:
        part["licenses"] = [{"license": {"name": licence}}]
    return part


def main(arguments: list[str]) -> int:
    """Write it to a file, or print it."""
    text = json.dumps(document(), indent=2) + "\n"
    if arguments:
        Path(arguments[0]).parent.mkdir(parents=True, exist_ok=True)
        Path(arguments[0]).write_text(text)
        print(f"{arguments[0]}: {text.count('purl')} parts")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
