"""What one engine step does right now: the table at this batch and setting, changed by the faults of the moment."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.simulator.drafts import DraftLaw, draft_law
from monitor.simulator.faults import FaultKind, Faults
from monitor.simulator.speculation import Speculation
from monitor.simulator.tables import Family, find_family

#: Positions after a broken head's first keep this share of the one before: near nothing, but not a suspicious exact 0.
_CLIFF_CONDITIONAL_RATE = 0.05
#: Decay is applied in steps of this size, so that the laws of a run can be remembered.
_DECAY_GRAIN = 0.01
_WORSE_FACTOR = 1.6
_COLD_FACTOR = 3.0


@dataclass(frozen=True, slots=True)
class Step:
    """One engine step: draft length used, law of its drafts, duration (simulated seconds)."""

    drafted: int
    law: DraftLaw
    seconds: float


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Table, speculation and correlation of one server; the faults are looked up at each question."""

    family: Family
    speculation: Speculation | None
    correlation: float
    coverage: float
    faults: Faults

    @property
    def num_speculative_tokens(self) -> int:
        """The configured draft length; 0 where speculation is off."""
        return self.speculation.num_speculative_tokens if self.speculation else 0

    def step(self, batch: int, uptime_seconds: float) -> Step:
        """What a step with so many requests does at this second of uptime."""
        drafted = self.speculation.drafted(batch) if self.speculation else 0
        family = self._family(uptime_seconds)
        row = family.row(drafted, batch)
        survival = self._survival(row.survival, uptime_seconds)
        return Step(
            drafted,
            draft_law(survival, self.coverage, self.correlation),
            row.step_seconds * self._slowness(uptime_seconds),
        )

    def is_halted(self, uptime_seconds: float) -> bool:
        """The engine takes work but makes no step."""
        return self.faults.active(FaultKind.STUCK, uptime_seconds) is not None

    def is_asleep(self, uptime_seconds: float) -> bool:
        """The engine's weights are offloaded; it neither runs nor admits."""
        return self.faults.active(FaultKind.SLEEP, uptime_seconds) is not None

    def is_drifting(self, uptime_seconds: float) -> bool:
        """Steps change with time itself, and not only when a fault begins."""
        return any(self.faults.active(kind, uptime_seconds) for kind in (FaultKind.DECAY, FaultKind.COLD_START))

    def _family(self, uptime_seconds: float) -> Family:
        shift = self.faults.active(FaultKind.SHIFT, uptime_seconds)
        return find_family(shift.value) if shift else self.family

    def _survival(self, survival: tuple[float, ...], uptime_seconds: float) -> tuple[float, ...]:
        cliff = self.faults.active(FaultKind.CLIFF, uptime_seconds)
        if cliff:
            first = cliff.numbers()[0]
            return tuple(min(rate, first * _CLIFF_CONDITIONAL_RATE**i) for i, rate in enumerate(survival))
        decay = self.faults.active(FaultKind.DECAY, uptime_seconds)
        if decay:
            kept = 0.5 ** ((uptime_seconds - decay.after_seconds) / decay.numbers()[0])
            kept = round(kept / _DECAY_GRAIN) * _DECAY_GRAIN
            return tuple(rate * kept ** (i + 1) for i, rate in enumerate(survival))
        return survival

    def _slowness(self, uptime_seconds: float) -> float:
        factor = 1.0
        worse = self.faults.active(FaultKind.WORSE_K, uptime_seconds)
        if worse:
            setting, *given = worse.numbers()
            if self.num_speculative_tokens >= setting:
                factor *= given[0] if given else _WORSE_FACTOR
        cold = self.faults.active(FaultKind.COLD_START, uptime_seconds)
        if cold:
            seconds, *given = cold.numbers()
            if uptime_seconds < cold.after_seconds + seconds:
                factor *= given[0] if given else _COLD_FACTOR
        return factor
