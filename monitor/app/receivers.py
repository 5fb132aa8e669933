"""Where notices go: Slack as configured, the console behind it."""

from __future__ import annotations

from monitor.app.outbox import FALL_BACK
from monitor.clock import Clock
from monitor.config.load import secret
from monitor.config.model import Config, Slack
from monitor.notify.console import Console
from monitor.notify.receiver import Receiver
from monitor.notify.slack_bot import SlackBot
from monitor.notify.slack_webhook import SlackWebhook


def make_receivers(config: Config, clock: Clock) -> list[Receiver]:
    """Where notices go: Slack where it is configured, with the console behind it; else the console."""
    found: list[Receiver] = []
    if config.slack is not None:
        found.append(_slack(config.slack, clock))
    found.append(Console())
    assert found[-1].name == FALL_BACK
    return found


def _slack(settings: Slack, clock: Clock) -> Receiver:
    token = secret(settings, "bot_token")
    if token is not None and settings.channel is not None:
        return SlackBot(token, settings.channel, api_url=settings.api_url, clock=clock, mention=settings.mention)
    url = secret(settings, "webhook_url")
    assert url is not None  # the configuration was checked
    return SlackWebhook(url, clock=clock, mention=settings.mention)
