"""Maintenance windows: when they open, in cron's words, in which time zone, for how long. It reads no clock.

A window opens at a wall-clock time and lasts real time. Where clocks are set: a time that is skipped counts from the
hour before it (02:30 of a night without one opens 30 minutes after 02:00 would have been, shown as 03:30), and one
that comes twice opens once, at the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

#: Longest window (seconds): a longer one is no window.
LONGEST_SECONDS = 7 * 86_400.0
#: How far ahead an opening is looked for (days): 29 February comes within eight years.
_HORIZON_DAYS = 8 * 366 + 2
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_EXPECTED = "minute hour day-of-month month day-of-week, as in crontab(5)"


@dataclass(frozen=True, slots=True)
class Window:
    """Opens at `opens` (five fields of crontab(5), with names, ranges, lists and steps) for `lasts_seconds`.

    Raises ValueError, naming the field, what was found and what is expected.
    """

    opens: str
    lasts_seconds: float
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        schedule = _schedule(self.opens)
        if not 60.0 <= self.lasts_seconds <= LONGEST_SECONDS:
            raise ValueError(f"a window of {self.lasts_seconds:g} s: expected one minute to seven days")
        if not any(schedule.matches(date(2024, 1, 1) + timedelta(days=n)) for n in range(_HORIZON_DAYS)):
            raise ValueError(f"{self.opens!r}: no such day ever comes")
        ZoneInfo(self.timezone)

    def closes(self, now: datetime) -> datetime | None:
        """When the window that is open at `now` closes, the last to where openings overlap; None where none is."""
        lasts = timedelta(seconds=self.lasts_seconds)
        first = (now - lasts).astimezone(ZoneInfo(self.timezone)).date() - timedelta(days=1)
        last = now.astimezone(ZoneInfo(self.timezone)).date() + timedelta(days=1)
        openings = [at for at in self._openings(first, last) if at <= now < at + lasts]
        return max(openings) + lasts if openings else None

    def next_opening(self, now: datetime) -> datetime:
        """The first moment after `now` at which it opens."""
        first = now.astimezone(ZoneInfo(self.timezone)).date() - timedelta(days=1)
        last = first + timedelta(days=_HORIZON_DAYS)
        return next(at for at in self._openings(first, last) if at > now)

    def _openings(self, first: date, last: date) -> Iterator[datetime]:
        """Every opening of the local days `first` to `last`, in UTC and in order."""
        schedule, zone = _schedule(self.opens), ZoneInfo(self.timezone)
        day = first
        while day <= last:
            if schedule.matches(day):
                times = (time(hour, minute) for hour in schedule.hours for minute in schedule.minutes)
                # fold 0: the first of two, and for a skipped time the offset before it.
                moments = {datetime.combine(day, at, tzinfo=zone).astimezone(UTC) for at in times}
                yield from sorted(moments)
            day += timedelta(days=1)


def open_until(windows: Sequence[Window], now: datetime) -> datetime | None:
    """When the last of the windows open at `now` closes; None where none is open."""
    return max((closes for window in windows if (closes := window.closes(now)) is not None), default=None)


def opens_next(windows: Sequence[Window], now: datetime) -> datetime:
    """When the next of the windows (at least one) opens."""
    return min(window.next_opening(now) for window in windows)


@dataclass(frozen=True, slots=True)
class _Schedule:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    #: Both day fields given: either is enough (crontab(5)).
    either_day: bool

    def matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


@lru_cache(maxsize=64)
def _schedule(text: str) -> _Schedule:
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"{text!r}: found {len(fields)} fields, expected five: {_EXPECTED}")
    read = [_field(value, *meaning) for value, meaning in zip(fields, _FIELDS, strict=True)]
    return _Schedule(
        minutes=tuple(sorted(read[0])),
        hours=tuple(sorted(read[1])),
        days=frozenset(read[2]),
        months=frozenset(read[3]),
        weekdays=frozenset(day % 7 for day in read[4]),
        either_day=not fields[2].startswith("*") and not fields[4].startswith("*"),
    )


def _field(text: str, name: str, low: int, high: int, words: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        try:
            width = int(step) if slash else 1
            if span == "*":
                begin, end = low, high
            else:
                begin = _number(first, low, words)
                end = _number(last, low, words) if dash else high if slash else begin
            if width < 1 or not low <= begin <= end <= high:
                raise ValueError(part)
        except ValueError:
            shown = f"{low} to {high}" + (f" or {words[0]} to {words[-1]}" if words else "")
            raise ValueError(f"{name} {part!r}: expected {shown}, a range, a list, or a step such as */5") from None
        found.update(range(begin, end + 1, width))
    return found


def _number(text: str, low: int, words: Sequence[str]) -> int:
    return words.index(text) + (low if words is _MONTHS else 0) if text in words else int(text)
