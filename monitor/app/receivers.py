"""Where notices go: every receiver that the configuration names, and the routes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from monitor.app.presses import Carrier, Presses, SocketRight
from monitor.clock import Clock
from monitor.config.load import secret
from monitor.config.model import Config
from monitor.config.routes import default_receivers, named_channels
from monitor.config.telling import Alertmanager, Slack, Webhook
from monitor.notify.alertmanager import Alertmanagers, Counters
from monitor.notify.console import Console
from monitor.notify.receiver import Receiver
from monitor.notify.routing import ALERTMANAGER, Route, Router
from monitor.notify.slack_bot import SlackBot
from monitor.notify.slack_socket import SlackSocket
from monitor.notify.slack_webhook import SlackWebhook
from monitor.notify.webhook import SignedWebhook
from monitor.store import Store


def make_router(config: Config) -> Router:
    """The routes of a checked configuration."""
    routes = [Route(route.match, route.to) for route in config.notify.routes]
    return Router(routes, otherwise=default_receivers(config), fallback=config.notify.fallback)


def make_receivers(config: Config, router: Router, clock: Clock) -> list[Receiver]:
    """The receivers that something may go to, the console always among them: it takes what nobody else can."""
    wanted = router.receivers
    found: list[Receiver] = []
    if config.slack is not None:
        found += _slack(config.slack, named_channels(wanted), clock)
    found += [_webhook(one, clock) for one in config.webhooks]
    return [*(one for one in found if one.name in wanted), Console()]


def make_alertmanagers(config: Config, router: Router, clock: Clock, counters: Counters) -> Alertmanagers | None:
    """What shows alerts to Alertmanager; None where none is configured or nothing goes there."""
    settings = config.alertmanager
    if settings is None or ALERTMANAGER not in router.receivers:
        return None
    headers, auth = _credentials(settings)
    return Alertmanagers(
        settings.urls, clock=clock, counters=counters, wants=lambda labels: ALERTMANAGER in router.place(labels),
        interval_seconds=config.rules.interval, page_url=f"http://{config.web.listen}/", headers=headers, auth=auth,
        ca_file=str(settings.ca_file) if settings.ca_file else None,
    )


def _slack(settings: Slack, channels: list[str], clock: Clock) -> list[Receiver]:
    """The bot for its own channel, and once more for each channel that a route names; or the webhook."""
    token = secret(settings, "bot_token")
    if token is not None and settings.channel is not None:
        places = [("slack", settings.channel), *((f"slack:{channel}", channel) for channel in channels)]
        return [
            SlackBot(
                token, channel, api_url=settings.api_url, clock=clock, mention=settings.mention, name=name,
                buttons=settings.has_buttons,
            )
            for name, channel in places
        ]
    url = secret(settings, "webhook_url")
    assert url is not None  # the configuration was checked
    return [SlackWebhook(url, clock=clock, mention=settings.mention)]


def make_presses(
    config: Config, store: Store, clock: Clock, router: Router, receivers: Sequence[Receiver], *,
    wake: Callable[[], None], errands: Carrier | None,
) -> Presses:
    """What carries out presses of buttons, of this host's connection or of another's."""
    bot = next((receiver for receiver in receivers if isinstance(receiver, SlackBot)), None)
    return Presses(
        store, clock, users=config.slack.users if config.slack is not None else (), receivers=router,
        whisper=bot.whisper if bot is not None else _nobody, wake=wake, simulated=config.simulated, errands=errands,
    )


def make_socket(
    config: Config, clock: Clock, presses: Presses, *, right: SocketRight, connected: Callable[[bool], None]
) -> SlackSocket | None:
    """What listens for presses of buttons; None where messages have none."""
    settings = config.slack
    token = secret(settings, "app_token") if settings is not None else None
    if settings is None or token is None:
        return None
    return SlackSocket(
        token, api_url=settings.api_url, clock=clock, right=right, pressed=presses.pressed, connected=connected,
    )


def _nobody(channel: str, user: str, text: str) -> None:
    """Without a bot nobody presses here."""


def _webhook(settings: Webhook, clock: Clock) -> Receiver:
    url, key = secret(settings, "url"), secret(settings, "secret")
    assert url is not None and key is not None  # the configuration was checked
    return SignedWebhook(settings.name, url, key, clock=clock)


def _credentials(settings: Alertmanager) -> tuple[dict[str, str], tuple[str, str] | None]:
    token = secret(settings, "bearer_token")
    if token is not None:
        return {"Authorization": f"Bearer {token}"}, None
    if settings.username:
        return {}, (settings.username, secret(settings, "password") or "")
    return {}, None
