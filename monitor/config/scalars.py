"""The scalar types of a configuration file: durations, sizes, secrets, addresses, names. It owns no settings."""

from __future__ import annotations

import re
from datetime import time
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BeforeValidator, SecretStr, StringConstraints

from monitor.model.alert import Matcher
from monitor.model.duration import DURATION_FORM, parse_duration
from monitor.policy.matchers import parse_matcher

_BYTES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def seconds(value: Any) -> float:
    """Seconds of a duration such as `90s`, `5m` or `1h30m`; a bare number is refused since its unit is a guess."""
    try:
        return parse_duration(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(DURATION_FORM) from None


def size_bytes(value: Any) -> int:
    """Bytes of a size such as `8MiB`."""
    match = re.fullmatch(r"(\d+)(B|KiB|MiB|GiB)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a size with a unit, such as 512KiB or 8MiB (units: B KiB MiB GiB)")
    return int(match[1]) * _BYTES[match[2]]


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError("a duration of more than 0s")
    return value


def http_url(value: str) -> str:
    """A base URL without a slash at its end; paths are added to it. Raises ValueError as `page_url` does."""
    if "?" in value or "#" in value:
        raise ValueError("a base URL, with neither ? nor # in it")
    return page_url(value)


def page_url(value: str) -> str:
    """The URL of one page. Raises ValueError saying what is expected; never repeats a password."""
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a URL that begins with http:// or https:// and names a host")
    if parts.username or parts.password:
        raise ValueError("a URL without user or password in it (use `auth:` with a *_file key)")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("a URL whose port is a number from 1 to 65535") from None
    return value.rstrip("/")


def _token_count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a number of tokens, 0 (off) or more")
    return value


def database_url(value: str) -> str:
    """The address of a PostgreSQL database; never repeats a password."""
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("postgresql", "postgres") or not parts.path.strip("/"):
        raise ValueError("an address such as postgresql://acceptd@db.example:5432/acceptd")
    if parts.password or any("password" in name.lower() for name, _ in parse_qsl(parts.query, True)):
        raise ValueError("an address without a password in it (use `password_file`)")
    return value


def _listen(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError("an address and port such as 127.0.0.1:9747")
    return value


def _zone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError("a time zone of the IANA database, such as Europe/Berlin or UTC")
    ZoneInfo(value)
    return value


def _clock_time(value: Any) -> time:
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a time of day such as 09:00')
    return time(int(match[1]), int(match[2]))


def secret_value(secret: SecretStr | None) -> str | None:
    """The text of a secret, at the one place where it is needed."""
    return secret.get_secret_value() if secret else None


def _runbook_url(value: str) -> str:
    if "{runbook}" not in value or not value.startswith(("http://", "https://")):
        raise ValueError("a URL with {runbook} in it, such as https://wiki.example/runbooks/{runbook}")
    return value


def _matcher(value: Any) -> Matcher:
    if isinstance(value, Matcher):
        return value
    return parse_matcher(value if isinstance(value, str) else "")


def unit_name(value: str) -> str:
    """The full name of a systemd service; `.service` is added where it is left out."""
    name = value if value.endswith(".service") else f"{value}.service"
    if re.fullmatch(r"[A-Za-z0-9:_.\\@-]{1,247}\.service", name) is None or name.endswith("@.service"):
        raise ValueError("the name of one systemd service, such as vllm@chat.service")
    return name


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
UnitName = Annotated[str, AfterValidator(unit_name)]
Duration = Annotated[float, BeforeValidator(seconds)]
PositiveDuration = Annotated[float, BeforeValidator(seconds), AfterValidator(_positive)]
TokenCount = Annotated[int, BeforeValidator(_token_count)]
Size = Annotated[int, BeforeValidator(size_bytes)]
HttpUrl = Annotated[str, AfterValidator(http_url)]
PageUrl = Annotated[str, AfterValidator(page_url)]
DatabaseUrl = Annotated[str, AfterValidator(database_url)]
ListenAddress = Annotated[str, AfterValidator(_listen)]
TimeZone = Annotated[str, AfterValidator(_zone)]
ClockTime = Annotated[time, BeforeValidator(_clock_time)]
RunbookUrl = Annotated[str, AfterValidator(_runbook_url)]
MatcherText = Annotated[Matcher, BeforeValidator(_matcher)]
