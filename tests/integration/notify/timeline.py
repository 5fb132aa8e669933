"""A shift on a told clock: what servers do, minute by minute, and what Slack is told of it, to the word.

Everything between is real: shipped rules, evaluation, a store on disk, the outbox, the bot, and the stand-in of Slack
over HTTP, with Slack's limits. `restart` kills all of it and begins anew on the same file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from monitor.actions import asking
from monitor.app.outbox import StoreOutbox
from monitor.cycle.evaluate import Evaluator
from monitor.cycle.history import History
from monitor.cycle.prober import ProbeResult
from monitor.cycle.slos import SloKeeper
from monitor.model.alert import Matcher, Silence, SilenceId
from monitor.model.decision import DecisionId
from monitor.model.interval import Interval
from monitor.model.life import LastReading, Life
from monitor.model.reading import Reading, Verdict
from monitor.model.rollout import Change, ChangeId, ChangeState, Rollout, RolloutId
from monitor.model.server import Group, GroupName, Server, ServerName
from monitor.notify.console import Console
from monitor.notify.outbox import OutboxWorker
from monitor.notify.routing import Router
from monitor.notify.slack_bot import SlackBot
from monitor.policy.load import load_rules
from monitor.policy.rule import RuleSet
from monitor.policy.telling import TellingPolicy
from monitor.shipped import rules_folder
from monitor.slo.load import SloPolicy, load_slos
from monitor.store import open_store
from tests.fakes.fake_clock import FakeClock
from tests.fakes.slack_server import CHANNEL, TOKEN, Message, SlackServer
from tests.unit.policy.words import WORDS
from tests.unit.signals.windows import NOON, interval, life

PAGER = "S0PAGER"
GOLDEN = Path(__file__).parents[2] / "golden" / "notices"


class NoProber:
    """Nobody is asked for a token."""

    def look(self, server: ServerName, stuck_seconds: float | None, is_sleeping: bool) -> None:
        pass

    def look_health(self, server: ServerName, page_failed: bool) -> None:
        pass

    def result(self, server: ServerName) -> ProbeResult | None:
        return None

    def health(self, server: ServerName) -> bool | None:
        return None


class Counters:
    def notice(self, receiver: str, outcome: str) -> None:
        pass


@dataclass
class Act:
    """What a server does now."""

    is_up: bool = True
    #: Tokens accepted at each position of 1,000 drafts a minute.
    per_pos: tuple[float, ...] = (800.0, 600.0, 500.0)
    #: Of 100 requests a minute, those that are answered 500.
    errors: float = 0.0


def shipped_rules() -> RuleSet:
    name = "alerts.yaml"
    return load_rules({name: (rules_folder() / name).read_text()}, WORDS)


def shipped_slos() -> tuple[SloPolicy, ...]:
    name = "slo.yaml"
    return load_slos({name: (rules_folder() / name).read_text()})


class Shift:
    """Servers (`GROUP-NUMBER`), one daemon and Slack, on a clock that begins at noon."""

    def __init__(self, folder: Path, *servers: str, with_slos: bool = False) -> None:
        """`with_slos`: whether the shipped objectives are kept."""
        self.folder = folder
        self.slos: SloKeeper | None = None
        self._with_slos = with_slos
        self.clock = FakeClock(NOON)
        self.slack = SlackServer(clock=lambda: self.clock.now().timestamp())
        self.acts = {ServerName(name): Act() for name in servers}
        self.lives: dict[ServerName, Life] = {name: life(name) for name in self.acts}
        self.pairs: list[tuple[Life, Interval]] = []
        self.rules = shipped_rules()
        self.minute = 0
        self._shown = 0
        self.lines: list[str] = []
        self.store = open_store(f"sqlite:///{folder / 'local.db'}")
        self.store.upgrade()
        with self.store.write() as unit:
            for one in self.lives.values():
                unit.lives.add(one)
        self._build()

    def close(self) -> None:
        self.store.close()

    def restart(self, *, quietly: bool = False) -> None:
        """The daemon is killed and begins anew: all it knows is in its file."""
        self.store.close()
        self.store = open_store(f"sqlite:///{self.folder / 'local.db'}")
        if not quietly:
            self.note("the daemon is killed and started again")
        self._build()

    def _build(self) -> None:
        history = History(86_400.0)
        history.fill(list(self.lives.values()), [one for _, one in self.pairs])
        self.history = history
        groups: dict[str, list[ServerName]] = {}
        for name in self.acts:
            groups.setdefault(name.rpartition("-")[0], []).append(name)
        made = [Group(name=GroupName(name), servers=tuple(found)) for name, found in groups.items()]
        if self._with_slos:
            self.slos = SloKeeper(self.store, shipped_slos(), made)
            self.slos.read_back(self.now)
        router = Router((), otherwise=("slack",), fallback="console")
        self.evaluator = Evaluator(
            self.store, history, NoProber(),  # type: ignore[arg-type]
            servers=[
                Server(name=name, group=GroupName(name.rpartition("-")[0]), base_url="http://x", metrics_url="http://x/m")
                for name in self.acts
            ],
            groups=made, slos=self.slos, alert_rules=self.rules, tuning_rules={}, host="h1", receivers=router,
            telling=TellingPolicy(place=router.place), watched_since=NOON, simulated=False, credit_seconds=150.0,
        )
        outbox = StoreOutbox(self.store, self.clock, lambda: None, fallback="console")
        bot = SlackBot(
            TOKEN, CHANNEL, api_url=self.slack.api_url, clock=self.clock, mention=PAGER, buttons=True
        )
        self.worker = OutboxWorker(bot, outbox, clock=self.clock, counters=Counters())
        self.console = io.StringIO()
        self.fallback = OutboxWorker(Console(self.console), outbox, clock=self.clock, counters=Counters())

    @property
    def now(self) -> datetime:
        return NOON + timedelta(minutes=self.minute)

    def run(self, until: int, at: dict[int, Callable[[], None]] | None = None) -> None:
        """Let the minutes pass up to `until`; `at` says what happens at the beginning of which."""
        while self.minute < until:
            self.minute += 1
            if at and self.minute in at:
                at[self.minute]()
            self._serve()
            self.clock.advance(max(0.0, (self.now - self.clock.now()).total_seconds()))
            self.evaluator.run(self.now)
            self._deliver(self.now + timedelta(seconds=59))
            self._show()

    def open_posts(self) -> list[str]:
        """What the channel still shows with buttons, as if it fired."""
        posts = [message for message in self.slack.messages if message.thread_ts is None]
        return [m.text for m in posts if any(block["type"] == "actions" for block in m.blocks)]

    def note(self, text: str) -> None:
        """What happens, for whoever reads the story."""
        self.lines.append(f"{self._stamp(self.now)} -- {text}")

    def down(self, *names: str) -> None:
        self.note(f"{', '.join(names)} stop{'s' if len(names) == 1 else ''} answering")
        for name in names:
            self.acts[ServerName(name)].is_up = False

    def up(self, *names: str) -> None:
        self.note(f"{', '.join(names)} answer{'s' if len(names) == 1 else ''} again")
        for name in names:
            self.acts[ServerName(name)].is_up = True

    def fail(self, name: str, share: float) -> None:
        self.note(f"{name} answers 500 to {share:.0%} of its requests")
        self.acts[ServerName(name)].errors = 100.0 * share

    def silence(self, label: str, value: str, minutes: float, reason: str) -> None:
        self.note(f"ann silences {label}={value} for {minutes:g} minutes: {reason}")
        with self.store.write() as unit:
            unit.silences.add(
                Silence(id=SilenceId("s-1"), matchers=(Matcher(label, "=", value),), author="ann", reason=reason,
                        starts_at=self.now, ends_at=self.now + timedelta(minutes=minutes))
            )

    def acknowledge(self, name: str) -> None:
        self.note(f"ann acknowledges {name}")
        with self.store.write() as unit:
            asking.acknowledge(unit, name, "ann", self.now)

    def change(self, server: str, state: ChangeState) -> None:
        """A change of ours on a server, now in `state`."""
        self.note(f"our own change of {server}: {state.value}")
        setting = self.lives[ServerName(server)].setting
        change = Change(
            id=ChangeId("c-1"), rollout=RolloutId("r-1"), server=ServerName(server), position=0, state=state,
            current=setting, proposed=setting, entered_at=self.now, deadline=self.now + timedelta(minutes=15),
        )
        with self.store.write() as unit:
            if unit.rollouts.get(RolloutId("r-1")) is None:
                unit.rollouts.add(
                    Rollout(id=RolloutId("r-1"), group=GroupName(server.rpartition("-")[0]), decision=DecisionId("d-1"),
                            current=setting, proposed=setting, created_at=self.now, requested_by="ann")
                )
                unit.changes.add([change])
            else:
                unit.changes.update(change)

    def _serve(self) -> None:
        """One more minute of every server: a page read, or not."""
        readings, made = [], []
        for name, act in self.acts.items():
            verdict = Verdict.OK if act.is_up else Verdict.SCRAPE_ERROR
            reading = Reading(
                server=name, scraped_at=self.now, monotonic=0.0, dialect="vllm_v1", verdict=verdict,
                reason="" if act.is_up else "unreachable: connection refused",
            )
            readings.append(LastReading(reading, self.now if act.is_up else None))
            if act.is_up:
                one = interval(
                    self.lives[name], 60.0 * self.minute, seconds=60.0, per_pos=act.per_pos, finished=100.0,
                    errors=act.errors,
                )
                made.append((self.lives[name], one))
            if self.slos is not None:
                self._check(reading, [made[-1][1]] if act.is_up else [])
        self.pairs += made
        self.history.add(list(self.lives.values()), [one for _, one in made], self.now)
        with self.store.write() as unit:
            for last in readings:
                unit.readings.put(last)

    def _check(self, last: Reading, intervals: list[Interval]) -> None:
        """The four pages of the minute, as the objectives count them: one each quarter of it."""
        assert self.slos is not None
        for seconds in (45, 30, 15):
            self.slos.noted(replace(last, scraped_at=last.scraped_at - timedelta(seconds=seconds)), (), ())
        self.slos.noted(last, [self.lives[last.server]], intervals)
        checks = self.slos.checks()
        with self.store.write() as unit:
            unit.intervals.add(intervals)
            unit.checks.add(checks)
        self.slos.stored(checks)

    def _deliver(self, until: datetime) -> None:
        while self.clock.now() < until:
            wait = self.worker.run_once()
            self.clock.advance(min(max(wait, 0.5), max(0.5, (until - self.clock.now()).total_seconds())))

    def _show(self) -> None:
        while self.fallback.run_once() == 0.0:
            pass
        self.lines += [f"{self._stamp(self.now)} console", *(f"        {one}" for one in self._said())]
        if self.lines[-1].endswith(" console"):
            self.lines.pop()
        for kind, message in self.slack.events[self._shown :]:
            self.lines += _told(self._stamp(_posted(message) if kind != "edit" else self.clock.now()), kind, message)
        self._shown = len(self.slack.events)

    def _said(self) -> list[str]:
        """What the console has shown since it was last asked, without its own stamps."""
        text = self.console.getvalue()
        self.console.seek(0)
        self.console.truncate()
        return [line.partition("] ")[2] if line.startswith("[notice") else line for line in text.splitlines()]

    def _stamp(self, moment: datetime) -> str:
        return f"{moment:%H:%M}"


def _posted(message: Message) -> datetime:
    return datetime.fromtimestamp(float(message.ts.partition(".")[0]), NOON.tzinfo)


def _told(stamp: str, kind: str, message: Message) -> list[str]:
    """A message as text, with its fields and buttons."""
    lines = [f"{stamp} {kind}"]
    lines += [f"        {line}" for line in message.text.splitlines()]
    for block in message.blocks:
        fields = [field["text"].replace("\n", " ").replace("*", "") for field in block.get("fields", ())]
        if fields:
            lines.append(f"        | {' | '.join(fields)}")
        buttons = [element["text"]["text"] for element in block.get("elements", ()) if element["type"] == "button"]
        if buttons:
            lines.append(f"        [{'] ['.join(buttons)}]")
    return lines


def check(name: str, lines: Sequence[str], *, write: bool) -> None:
    """Compare a story with its file; `write` writes it anew."""
    path = GOLDEN / f"{name}.txt"
    text = "\n".join(lines) + "\n"
    if write:
        path.write_text(text)
    assert path.read_text().splitlines() == list(text.splitlines())
