"""The tables of signals in `docs/rules.md`, made from the code. `python -m tests.unit.policy.signal_table` writes them.

They stand between two markers; `test_docs.py` fails while the page says something else than the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from monitor.policy.facts import FACTS
from monitor.signals.vocabulary import VOCABULARY, Family

PAGE = Path(__file__).resolve().parents[3] / "docs" / "rules.md"
BEGIN, END = "<!-- signals: made from the code -->", "<!-- end of signals -->"
TITLES = {
    Family.ACCEPTANCE: "Acceptance, at the newest setting in the window",
    Family.STEPS: "Steps, at the newest setting in the window",
    Family.LOAD: "Load",
    Family.LATENCY: "Latencies",
    Family.CHANGE: "Changes of acceptance",
    Family.SERVER: "State of the server",
}


def lines() -> Iterator[str]:
    for family, title in TITLES.items():
        yield f"### {title}\n\n| signal | unit | sample | meaning |\n| --- | --- | --- | --- |"
        for spec in VOCABULARY.values():
            if spec.family is family:
                name = f"{spec.name}[]" if spec.kind == "vector" else spec.name
                yield f"| `{name}` | {spec.unit} | {spec.sample} | {spec.meaning} |"
        yield ""
    yield "### What acceptd knows beside the page\n\n| signal | meaning |\n| --- | --- |"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in FACTS.items())


def expected() -> str:
    return "\n".join(lines()) + "\n"


def found(page: str) -> str:
    return page.partition(BEGIN + "\n")[2].partition(END)[0]


if __name__ == "__main__":
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN + "\n")
    PAGE.write_text(f"{head}{BEGIN}\n{expected()}{END}{rest.partition(END)[2]}")
