"""Settings of telling people: Slack, Alertmanager, webhooks, which of them gets what, and how often."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from monitor.config.credentials import Auth
from monitor.config.scalars import Duration, HttpUrl, MatcherText, Name, PositiveDuration, RunbookUrl
from monitor.config.section import Section, exactly_one_of, one_of
from monitor.notify.routing import ALERTMANAGER


class Slack(Section):
    """Where on-call is told: a bot token with a channel, or an incoming webhook."""

    bot_token: SecretStr | None = Field(None, description="Bot token (`xoxb-…`) with chat:write and files:write.")
    bot_token_file: Path | None = Field(None, description="File whose first line is the bot token.")
    channel: str | None = Field(None, description="Channel id (better) or name for the bot.")
    webhook_url: SecretStr | None = Field(None, description="Incoming webhook; it cannot edit messages.")
    webhook_url_file: Path | None = Field(None, description="File whose first line is the webhook URL.")
    app_token: SecretStr | None = Field(
        None, description="App-level token (`xapp-…`) with connections:write: messages get buttons."
    )
    app_token_file: Path | None = Field(None, description="File whose first line is the app-level token.")
    users: tuple[str, ...] = Field((), description="Ids of the users whose presses count, e.g. `U0123ABC`.")
    mention: str | None = Field(None, description="User group id mentioned in pages, e.g. `S0123ABC`.")
    api_url: HttpUrl = Field("https://slack.com/api", description="Base URL of the Web API, for proxies.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        one_of(self, "bot_token", "bot_token_file")
        one_of(self, "webhook_url", "webhook_url_file")
        bot = self.bot_token or self.bot_token_file
        hook = self.webhook_url or self.webhook_url_file
        if bool(bot) == bool(hook):
            raise ValueError("exactly one of bot_token(_file) and webhook_url(_file)")
        if bot and not self.channel:
            raise ValueError("a channel for the bot")
        one_of(self, "app_token", "app_token_file")
        if self.has_buttons and not bot:
            raise ValueError("a bot token beside the app token: a webhook's messages have no buttons")
        if self.has_buttons != bool(self.users):
            raise ValueError("app_token(_file) and users together: who may press the buttons that it makes")
        for user in self.users:
            if not re.fullmatch(r"[UW][A-Z0-9]{2,}", user):
                raise ValueError(f"ids of users such as U0123ABC, not {user!r} (in Slack: profile, Copy member ID)")
        return self

    @property
    def has_buttons(self) -> bool:
        """Whether presses of buttons are listened for."""
        return bool(self.app_token or self.app_token_file)

    @property
    def is_bot(self) -> bool:
        """Whether it is the bot, which knows channels, and not a webhook."""
        return bool(self.bot_token or self.bot_token_file)


class Alertmanager(Auth):
    """Prometheus' Alertmanager: it is shown every alert as it stands, and groups and tells by its own rules."""

    urls: tuple[HttpUrl, ...] = Field(min_length=1, description="Base URL of each Alertmanager; all are told.")
    ca_file: Path | None = Field(None, description="CA bundle to trust instead of the system's.")


class Webhook(Section):
    """A receiver of your own: each notice is posted to it as JSON, signed."""

    name: Name = Field(description="Name of the receiver in routes, metrics and logs.")
    url: SecretStr | None = Field(None, description="Address to post to (http, https); kept secret.")
    url_file: Path | None = Field(None, description="File whose first line is that address.")
    secret: SecretStr | None = Field(None, description="Key of the signature: `whsec_…` or 16 characters or more.")
    secret_file: Path | None = Field(None, description="File whose first line is that key.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        exactly_one_of(self, "url", "url_file")
        exactly_one_of(self, "secret", "secret_file")
        if self.name in _RESERVED or self.name.startswith("slack"):
            raise ValueError(f"a name other than {', '.join(_RESERVED)} for the webhook")
        return self


_RESERVED = ("slack", "console", ALERTMANAGER)


class Route(Section):
    """Where the notices go that fit; the first route that fits decides."""

    match: tuple[MatcherText, ...] = Field(
        (), description='Matchers such as `severity="page"`, `team=~"chat|search"`, `kind="report"`; all must fit.'
        " Expressions are RE2's."
    )
    to: tuple[str, ...] = Field(
        min_length=1,
        description="Receivers: `slack`, `slack:CHANNEL`, `alertmanager`, `console`, or the name of a webhook.",
    )


class Notify(Section):
    """Who is told of what, how it is put together and how often it is said."""

    routes: tuple[Route, ...] = Field((), description="Where notices go; what no route fits goes to every receiver.")
    fallback: str = Field("console", description="Receiver of what another one refuses for good.")
    group_by: tuple[str, ...] = Field(
        ("alertname", "severity", "group"), min_length=1, description="Labels whose alerts share a message."
    )
    group_wait: Duration = Field(0.0, description="Wait for others of its group before an alert is told.")
    group_interval: Duration = Field(300.0, description="Least time between two messages on the same group.")
    digest_above: int = Field(
        10, ge=1, description="Where more incidents begin within two group_intervals, new ones share one message."
    )
    repeat: PositiveDuration = Field(4 * 3600.0, description="A firing alert is repeated after this long.")
    page_repeat: PositiveDuration = Field(
        1800.0, description="A page that nobody acknowledged is repeated after this long."
    )
    runbook_url: RunbookUrl | None = Field(
        None, description="Address of your runbooks, with `{runbook}` for the name; else the command is named."
    )
    dead_mans_switch_url: SecretStr | None = Field(None, description="URL asked once a minute while all is well.")
    dead_mans_switch_url_file: Path | None = Field(None, description="File whose first line is that URL.")
