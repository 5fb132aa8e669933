"""A made-up past of a fleet for benchmarks of what reads it: lives and intervals with the histograms of a vLLM page.

Numbers are plausible and cheap to make; nothing is concluded from them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from monitor.model.counts import Histogram, LatencyCounts, SpeculationCounts, TrafficCounts
from monitor.model.interval import GaugeSpan, Interval
from monitor.model.life import Life, LifeId, Setting, StartEvidence
from monitor.model.server import Group, GroupName, Mode, Server, ServerName

#: Edges of vLLM 0.32's histograms (seconds): to the first token, between tokens, of whole requests.
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
          160.0, 640.0, 2560.0, math.inf)
_BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
            math.inf)
_WHOLE = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
          1920.0, 7680.0, math.inf)
_TOKENS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, math.inf)


def fleet(count: int, group_size: int, mode: Mode = Mode.RECOMMEND) -> tuple[list[Server], list[Group]]:
    """Servers `s0` … in groups of so many."""
    servers = [
        Server(name=ServerName(f"s{n}"), group=GroupName(f"g{n // group_size}"), base_url=f"http://127.0.0.1:{n + 1}",
               metrics_url=f"http://127.0.0.1:{n + 1}/metrics")
        for n in range(count)
    ]
    groups: dict[GroupName, list[ServerName]] = {}
    for server in servers:
        groups.setdefault(server.group, []).append(server.name)
    return servers, [Group(name=name, servers=tuple(names), mode=mode) for name, names in groups.items()]


def life_of(server: ServerName, begun: datetime, tokens: int = 3, number: int = 1) -> Life:
    """One life of a server with an EAGLE-3 head."""
    return Life(
        id=LifeId(f"{server}-{number}"), server=server, model="m", engine="0", first_seen=begun,
        evidence=StartEvidence.FIRST_SEEN, counts_from_zero=True, engine_version="0.32.0",
        process_start=begun.timestamp(), setting=Setting(method="eagle3", num_speculative_tokens=tokens),
    )


def intervals_of(life: Life, begin: datetime, until: datetime, seconds: float) -> Iterator[Interval]:
    """Intervals of equal length: load with a day and a night, acceptance that drifts a little."""
    rng = random.Random(str(life.id))
    tokens = life.setting.num_speculative_tokens or 0
    ease, shift = rng.uniform(0.68, 0.82), rng.uniform(0.0, 86_400.0)
    shapes = [_Shape(rng, seconds) for _ in range(16)]
    end = begin + timedelta(seconds=seconds)
    while end <= until:
        day = 0.5 + 0.4 * math.sin((end.timestamp() + shift) / 86_400.0 * 2 * math.pi)
        batch = 1.0 + 31.0 * day * rng.uniform(0.9, 1.1)
        shape = shapes[rng.randrange(len(shapes))]
        yield _interval(life, end, seconds, tokens, batch, ease * rng.uniform(0.98, 1.02), shape)
        end += timedelta(seconds=seconds)


class _Shape:
    """Histograms of one interval, shared by many: making them anew would cost more than what is measured."""

    def __init__(self, rng: random.Random, seconds: float) -> None:
        self.finished = 20.0 * seconds / 15.0
        outputs = self.finished * 80.0
        self.latency = LatencyCounts(
            time_to_first_token=_histogram(rng, _FIRST, 0.05, self.finished),
            inter_token=_histogram(rng, _BETWEEN, 0.012, outputs),
            time_per_output_token=_histogram(rng, _BETWEEN, 0.006, self.finished),
            e2e_request=_histogram(rng, _WHOLE, 1.4, self.finished),
            queue=_histogram(rng, _WHOLE, 0.01, self.finished),
        )
        self.prompts = _histogram(rng, _TOKENS, 300.0, self.finished)
        self.outputs = _histogram(rng, _TOKENS, 180.0, self.finished)


def _histogram(rng: random.Random, edges: tuple[float, ...], mean: float, count: float) -> Histogram:
    """Log-normal observations about `mean`."""
    middle = math.log(mean) + rng.gauss(0.0, 0.1)
    shares = [0.5 * math.erfc(-(math.log(edge) - middle) / 0.5 / math.sqrt(2)) for edge in edges[:-1]]
    cumulative = (*(float(round(count * share)) for share in shares), count)
    return Histogram(edges, cumulative, math.exp(middle) * count, count)


def _interval(
    life: Life, end: datetime, seconds: float, tokens: int, batch: float, ease: float, shape: _Shape
) -> Interval:
    step = 0.008 + 0.0002 * batch
    steps = float(round(seconds / step))
    drafts = float(round(steps * batch))
    accepted = [float(round(drafts * ease ** (i + 1))) for i in range(tokens)]
    return Interval(
        life=life.id, server=life.server, start=end - timedelta(seconds=seconds), end=end, elapsed_seconds=seconds,
        speculation=SpeculationCounts(
            num_drafts=drafts, num_draft_tokens=drafts * tokens, num_accepted_tokens=sum(accepted),
            accepted_per_pos=tuple(accepted),
        ),
        speculation_seconds=seconds,
        traffic=TrafficCounts(
            generation_tokens=drafts + sum(accepted), prompt_tokens=300.0 * shape.finished, engine_steps=steps,
            step_tokens=drafts * (tokens + 1), finished={"stop": shape.finished, "length": 0.0},
            http_responses={"2xx": shape.finished}, preemptions=0.0, prompt_length=shape.prompts,
            output_length=shape.outputs,
        ),
        traffic_seconds=seconds,
        latency=LatencyCounts(
            time_to_first_token=shape.latency.time_to_first_token,
            inter_token=Histogram(_BETWEEN, (0.0, *(drafts,) * (len(_BETWEEN) - 1)), drafts * step, drafts),
            time_per_output_token=shape.latency.time_per_output_token, e2e_request=shape.latency.e2e_request,
            queue=shape.latency.queue,
        ),
        latency_seconds=seconds,
        gauges=GaugeSpan(
            running_mean=batch, running_max=math.ceil(batch), waiting_mean=0.0, waiting_max=0.0,
            kv_usage_mean=batch / 64.0, kv_usage_max=batch / 60.0,
        ),
        gauges_seconds=seconds,
    )
