"""Who is told: whether Slack takes our token, Alertmanager answers, and somebody notices when we fall silent.

Nothing is posted: a webhook cannot be tried without posting, so it is only looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from monitor.clock import Clock
from monitor.config.load import secret
from monitor.config.model import Config
from monitor.config.telling import Alertmanager, Slack
from monitor.doctor.finding import Area, Finding, Subject
from monitor.errors import NotifyError
from monitor.notify.exchange import NO_ANSWER, ask
from monitor.notify.slack_bot import SlackBot

_TIMEOUT_SECONDS = 5.0
#: What to do about a refusal of Slack, by its word.
_SLACK = {
    "invalid_auth": "make a new token: api.slack.com/apps, OAuth & Permissions",
    "token_revoked": "make a new token: api.slack.com/apps, OAuth & Permissions",
    "account_inactive": "the app or its user was removed: install it again",
    "missing_scope": "give the app chat:write and files:write, then reinstall it",
    "not_allowed_token_type": "use a bot token (xoxb-…)",
}


def check_receivers(config: Config, clock: Clock) -> Iterator[Finding]:
    """Every receiver of a checked configuration."""
    if config.slack is not None:
        yield _slack(config.slack, clock)
    if config.alertmanager is not None:
        yield from _alertmanager(config.alertmanager)
    for webhook in config.webhooks:
        yield Subject(Area.RECEIVERS, webhook.name).note("a webhook: only a notice can show that it works",
                                                         "acceptd silence and its expiry make a harmless one")
    if config.slack is None and config.alertmanager is None and not config.webhooks:
        yield Subject(Area.RECEIVERS, "console").note("notices go to the log alone: nobody is woken",
                                                      "set `slack`, `alertmanager` or `webhooks`")
    of = Subject(Area.RECEIVERS, "dead man's switch")
    if secret(config.notify, "dead_mans_switch_url") is None:
        yield of.note("none: nobody notices when this daemon or its host falls silent",
                      "notify.dead_mans_switch_url, of a service that calls when no ping came")
    else:
        yield of.ok("asked once a minute while all is well")


def _slack(settings: Slack, clock: Clock) -> Finding:
    of = Subject(Area.RECEIVERS, "Slack")
    token = secret(settings, "bot_token")
    if token is None or settings.channel is None:
        return of.note("an incoming webhook: it cannot edit or thread, and only a notice can show that it works",
                       "a bot token (`bot_token_file`, `channel`) keeps one message an incident")
    try:
        who = SlackBot(token, settings.channel, api_url=settings.api_url, clock=clock).check()
    except NotifyError as error:
        return of.problem(f"auth.test: {error}", _SLACK.get(error.reason, "check the token, the proxy and"
                          " `slack.api_url`; api.slack.com/methods/auth.test lists the words"))
    return of.ok(f"the token is {who}'s; channel {settings.channel} takes posts once the app is invited there")


def _alertmanager(settings: Alertmanager) -> Iterator[Finding]:
    token = secret(settings, "bearer_token")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    auth = (settings.username, secret(settings, "password") or "") if settings.username else None
    for url in settings.urls:
        of = Subject(Area.RECEIVERS, f"Alertmanager {url}")
        try:
            answer = ask(
                "GET", f"{url}/-/ready", headers=headers, auth=auth, timeout_seconds=_TIMEOUT_SECONDS,
                ca_file=str(settings.ca_file) if settings.ca_file else None,
            )
        except NO_ANSWER as error:
            yield of.problem(f"does not answer ({type(error).__name__})", f"curl {url}/-/ready")
            continue
        if answer.status == 200:
            yield of.ok("ready")
        else:
            yield of.problem(f"/-/ready says {answer.status}", f"curl -i {url}/-/ready")
