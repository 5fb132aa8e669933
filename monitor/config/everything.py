"""Every mistake of a configuration at once: settings, contradictions, rules, objectives; as far as each can be judged.

A daemon stops at the first stage that fails; a person who mends a file wants them all. Sections with mistakes are left
out for what comes after, and with them what would only seem wrong without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from monitor.config.load import contradictions, read_settings, validation_problems
from monitor.config.model import Config
from monitor.config.rules import LoadedRules, load_configured_rules
from monitor.errors import ConfigError, Problem

#: Where a section is wrong, what refers to it cannot be judged: groups name servers, and so do routes and objectives.
_REFERS = {"servers": ("groups", "slo"), "sources": ("servers", "groups", "slo")}


def every_problem(
    path: Path | None, environ: Mapping[str, str] | None = None
) -> tuple[list[Problem], Config | None, LoadedRules | None]:
    """All mistakes; the configuration and its rules where there are none."""
    try:
        document = read_settings(path, environ)
    except ConfigError as error:
        return list(error.problems), None, None
    found: list[Problem] = []
    try:
        config = Config.model_validate(document.value)
    except ValidationError as error:
        found = validation_problems(document, error)
        left = _without(document.value, {str(entry["loc"][0]) for entry in error.errors() if entry["loc"]})
        try:
            config = Config.model_validate(left)
        except ValidationError:
            return found, None, None
    found += contradictions(document, config)
    rules: LoadedRules | None = None
    try:
        rules = load_configured_rules(config)
    except ConfigError as error:
        # Files that are not there were named already.
        missing = {str(file) for file in (*config.rules.files, *config.slo.files) if not file.is_file()}
        found += [problem for problem in error.problems if problem.path not in missing]
    return (list(dict.fromkeys(found)), None, None) if found else ([], config, rules)


def _without(data: dict[str, Any], wrong: set[str]) -> dict[str, Any]:
    gone = set(wrong).union(*(_REFERS.get(section, ()) for section in wrong))
    return {key: value for key, value in data.items() if key not in gone}
