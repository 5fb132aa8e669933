"""Writes the parts of these pages that the code knows better: `python -m docs.generate` from the top of the checkout.

Each part stands between two markers; tests/unit/docs fails while a page says something else than the code. Everything
outside the markers is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from docs import manpage
from docs.commands import commands, is_argument, parameters, program, usage
from monitor import names
from monitor.config.reference import reference
from monitor.dialects import llamacpp, sglang, vllm_names
from monitor.policy.facts import FACTS
from monitor.signals.vocabulary import VOCABULARY, Family, Kind
from monitor.telemetry import Telemetry

DOCS = Path(__file__).resolve().parent
_FAMILIES = {
    Family.ACCEPTANCE: "Acceptance",
    Family.STEPS: "Engine steps",
    Family.LOAD: "Load",
    Family.LATENCY: "Latencies",
    Family.CHANGE: "Changes of acceptance",
    Family.SERVER: "State of the server",
}
ENGINE_TABLES = {
    "vLLM": (*vllm_names.V0, *vllm_names.V1),
    "SGLang": sglang.TABLE,
    "llama-server": llamacpp.TABLE,
}


def row(*cells: str) -> str:
    """One line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(*head: str) -> str:
    """The first two lines of a table."""
    return row(*head) + "\n" + row(*("---" for _ in head))


def signal_tables() -> str:
    """Every signal by family, then every fact."""
    parts = []
    for family, title in _FAMILIES.items():
        lines = [f"### {title}", "", table("signal", "unit", "rests on", "from", "newest setting only")]
        for spec in VOCABULARY.values():
            if spec.family is family:
                name = f"`{spec.name}[]`" if spec.kind is Kind.VECTOR else f"`{spec.name}`"
                lines.append(row(name, spec.unit, spec.sample, spec.source, "yes" if spec.of_setting else ""))
        parts.append("\n".join(lines))
    facts = ["### What acceptd knows beside the page", "", table("fact", "meaning")]
    facts += [row(f"`{name}`", meaning) for name, meaning in FACTS.items()]
    return "\n\n".join([*parts, "\n".join(facts)])


def exercised() -> Telemetry:
    """Own metrics, each with a value, so that the page shows every family with its labels."""
    telemetry = Telemetry()
    telemetry.scraped("s", "ok", 0.1)
    telemetry.server_up("s", True, 1.0)
    telemetry.intervals_stored("s", 1)
    telemetry.unknown_series("s", 1)
    telemetry.scrape_late("s", 2.0)
    telemetry.scrape_missed("s", 1)
    telemetry.scrape_overlapping("s")
    telemetry.unknown_series("s", 1)
    telemetry.unexpected_error("evaluate")
    for name in telemetry.signal_names:
        telemetry.signal(name, "s", "g", 1.0)
    telemetry.positions("s", "g", [0.8])
    telemetry.slo_events("availability", {"group": "g"}, 1.0, 1.0)
    telemetry.slo_known("availability", {"group": "g"}, 1.0)
    telemetry.cycle("ok", 0.1)
    telemetry.job_missed("report")
    telemetry.job_failed("report")
    telemetry.decision("g", "keep", "between_thresholds")
    telemetry.change_ended("g", "promoted")
    telemetry.alerts_firing({"page": 1})
    telemetry.paused({"*"})
    telemetry.notice("console", "sent")
    telemetry.outbox_pending(1)
    return telemetry


def metric_table() -> str:
    """Every metric of a real page: name as scraped, type, labels, meaning."""
    lines = [table("metric", "type", "labels", "meaning")]
    for family in text_string_to_metric_families(exercised().page().decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        shown = ", ".join(f"`{label}`" for label in labels)
        lines.append(row(f"`{name}`", family.type, shown, family.documentation))
    return "\n".join(lines)


def metric_names() -> set[str]:
    """Every name of `monitor.names` that is a metric's."""
    return {value for value in vars(names).values() if isinstance(value, str) and value.startswith("acceptd_")}


def command_reference() -> str:
    """Every command with its arguments and options, as the program itself has them."""
    parts = ["\n".join(["### Before every command", "", *_parameters(program())])]
    parts += [_command(name, command) for name, command in commands()]
    return "\n\n".join(parts)


def _command(name: str, command: Any) -> str:
    lines = [f"### `acceptd {name}`", "", command.help, "", f"    {usage(name, command)}", "", *_parameters(command)]
    return "\n".join(lines).rstrip()


def _parameters(command: Any) -> list[str]:
    rows = [
        row(_shown(one), "**required**" if one.required else _default(one.default), one.help or "")
        for one in parameters(command)
    ]
    return [table("argument or option", "default", "what it is"), *rows] if rows else []


def _shown(parameter: Any) -> str:
    if is_argument(parameter):
        return f"`{parameter.name.upper()}`"
    shown = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    return f"{shown} (may be repeated)" if parameter.multiple else shown


def _default(default: Any) -> str:
    if default in (None, False, ""):
        return ""
    return "on" if default is True else f"`{default}`"


def engine_names() -> str:
    """Every name of an engine that acceptd reads, with the releases that print it."""
    lines = [table("engine", "name", "type", "read as", "releases")]
    for engine, tables in ENGINE_TABLES.items():
        for known in sorted((one for one in tables if one.reads), key=lambda one: (one.generation, one.name)):
            releases = f"{known.first} – {known.last or ''}".strip() if known.first else "not looked up"
            title = f"{engine} {known.generation}".strip()
            lines.append(row(title, f"`{known.name}`", known.kind.value, f"`{known.reads}`", releases))
    return "\n".join(lines)


#: Page, name of the part, what makes it.
PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("configuration.md", "settings", reference),
    ("signals.md", "signals", signal_tables),
    ("metrics.md", "metrics", metric_table),
    ("cli.md", "commands", command_reference),
    ("engines.md", "names", engine_names),
)


def markers(part: str) -> tuple[str, str]:
    """The lines that a part stands between."""
    return f"<!-- {part}: made by docs/generate.py -->", f"<!-- end of {part} -->"


def found(page: str, part: str) -> str:
    """What a page has between the markers of a part. Raises ValueError where they are not there."""
    begin, end = markers(part)
    match = re.search(f"{re.escape(begin)}\n(.*?)\n{re.escape(end)}", page, re.DOTALL)
    if match is None:
        raise ValueError(f"no markers of {part}: expected {begin} and {end}")
    return match[1]


def main() -> None:
    """Write every part into its page, and the manual page."""
    for name, part, make in PARTS:
        path = DOCS / name
        text = path.read_text()
        begin, end = markers(part)
        path.write_text(text.replace(f"{begin}\n{found(text, part)}\n{end}", f"{begin}\n{make()}\n{end}"))
    manpage.FILE.write_text(manpage.man_page((DOCS / "cli.md").read_text()))


if __name__ == "__main__":
    main()
