"""Names of receivers in a configuration: which there are, where notices go by default, and mistakes among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.config.model import Config
from monitor.errors import Problem
from monitor.model.document import one_of
from monitor.notify.routing import ALERTMANAGER

CONSOLE = "console"
SLACK = "slack"


def receiver_names(config: Config) -> list[str]:
    """Every receiver that the configuration has, channels of routes aside."""
    found = [SLACK] if config.slack is not None else []
    found += [webhook.name for webhook in config.webhooks]
    found += [ALERTMANAGER] if config.alertmanager is not None else []
    return [*found, CONSOLE]


def default_receivers(config: Config) -> tuple[str, ...]:
    """Where what no route fits goes: to every receiver, or to the console where there is no other."""
    return tuple(receiver_names(config)[:-1]) or (CONSOLE,)


def named_channels(receivers: Sequence[str]) -> list[str]:
    """Channels in names such as `slack:#gpu-oncall`."""
    return [name.partition(":")[2] for name in receivers if name.startswith(f"{SLACK}:")]


def route_problems(file: str, config: Config) -> Iterator[Problem]:
    """Routes to receivers that do not exist, two webhooks of one name, and a fallback that cannot take a message."""
    known = receiver_names(config)
    names = [webhook.name for webhook in config.webhooks]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(f"webhooks: {name}", f"{names.count(name)} entries of that name", "unique names", file)
    for index, route in enumerate(config.notify.routes):
        for name in route.to:
            expected = _expected(name, known, config)
            if expected:
                yield Problem(f"notify.routes[{index}].to", repr(name), expected, file)
        if not route.match and index + 1 < len(config.notify.routes):
            yield Problem(
                f"notify.routes[{index}].match", "nothing, which fits everything", "matchers, or to be the last route",
                file,
            )
    fallback = config.notify.fallback
    if fallback == ALERTMANAGER or _expected(fallback, known, config):
        takers = [name for name in known if name != ALERTMANAGER]
        yield Problem("notify.fallback", repr(fallback), one_of(fallback, takers), file)


def _expected(name: str, known: Sequence[str], config: Config) -> str:
    """What a name of a receiver should have been; empty where it is right."""
    if name in known:
        return ""
    if name.startswith(f"{SLACK}:"):
        if config.slack is None or not config.slack.is_bot:
            return "a bot token in `slack` for channels by name: a webhook has one channel of its own"
        return "" if name.partition(":")[2] else "a channel after `slack:`"
    return one_of(name, known)
