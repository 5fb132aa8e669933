"""What is measured of a soaking daemon, and how it is drawn and judged."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Sample:
    """The daemon at one moment. `hours` are simulated; `data_age` is that of the oldest newest page (simulated s)."""

    hours: float
    memory: float
    data_age: float
    late: float
    missed: float
    store: float
    process: int


def growth(samples: Sequence[Sample]) -> float:
    """Growth of memory over the last third of one process's samples (bytes a simulated hour); 0 for too few.

    What is remembered of the last day fills up before.
    """
    own = [one for one in samples if one.process == samples[0].process]
    last = own[len(own) * 2 // 3 :]
    if len(last) < 5:
        return 0.0
    slope, _ = np.polyfit([one.hours for one in last], [one.memory for one in last], 1)
    return float(slope)


def write(samples: Sequence[Sample], path: Path) -> None:
    """The samples as they are."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([one.name for one in fields(Sample)])
        rows.writerows(astuple(one) for one in samples)


def draw(samples: Sequence[Sample], events: Sequence[tuple[float, str]], path: Path) -> None:
    """Memory, age of data, late scrapes and the store's size over simulated hours, faults marked."""
    rows = (
        ("memory (MiB)", [one.memory / MIB for one in samples]),
        ("oldest data (s)", [one.data_age for one in samples]),
        ("late + missed", [one.late + one.missed for one in samples]),
        ("store (MiB)", [one.store / MIB for one in samples]),
    )
    figure, axes = plt.subplots(len(rows), 1, sharex=True, figsize=(11, 9))
    hours = [one.hours for one in samples]
    for axis, (title, values) in zip(axes, rows, strict=True):
        axis.plot(hours, values, linewidth=1)
        axis.set_ylabel(title)
        axis.set_ylim(bottom=0)
        for at, _ in events:
            axis.axvline(at, color="tab:red", linewidth=0.4)
    axes[-1].set_xlabel("simulated hours")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
