"""Column types that speak the model's language: aware moments, enums, nested values. They own no table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

from monitor.errors import StoreError
from monitor.store.codec import dumps, loads

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

#: Numbers given by the database, also where it is SQLite, which counts only an INTEGER PRIMARY KEY by itself.
Number = BigInteger().with_variant(Integer, "sqlite")


class PlainText(TypeDecorator[str]):
    """Text that any database takes: zero bytes and halves of characters (from logs and error messages) are replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The text, with the replacement character where it has what UTF-8 or PostgreSQL cannot hold."""
        if value is None or (value.isascii() and "\0" not in value):
            return value
        return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Moment(TypeDecorator[datetime]):
    """An aware moment: `timestamptz` on PostgreSQL, whole microseconds since 1970 on SQLite.

    SQLite has no type for time; integers compare and sort right, keep the microsecond and take 8 bytes instead of 26.
    In its shell: `datetime(end_at / 1000000, 'unixepoch')`.
    """

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The database's own type."""
        kind: TypeEngine[Any] = DateTime(timezone=True) if dialect.name == "postgresql" else BigInteger()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """What the driver is given; a moment without time zone is refused."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise StoreError(f"moment {value.isoformat()} has no time zone: expected an aware one")
        return value if dialect.name == "postgresql" else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """The moment in UTC."""
        if value is None:
            return None
        return value.astimezone(UTC) if dialect.name == "postgresql" else _EPOCH + timedelta(microseconds=value)


class Word(TypeDecorator[StrEnum]):
    """A member of an enum, stored as its value in plain text, so that a new member needs no migration."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        self.kind = kind
        super().__init__()

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        """The member's value as a plain `str`."""
        return None if value is None else str.__str__(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> StrEnum | None:
        """The member; a value that this version does not know is an error that says so."""
        if value is None:
            return None
        try:
            return self.kind(value)
        except ValueError:
            known = ", ".join(member.value for member in self.kind)
            raise StoreError(
                f"the database holds the {self.kind.__name__} {value!r}, which this acceptd does not know"
                f" (expected one of {known}): was it written by a newer version?"
            ) from None


class Nested(TypeDecorator[Any]):
    """A nested value (a setting, evidence, counts) as JSON text; `kind` is its type, as in the model's annotations."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__()

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """The value's JSON text."""
        return None if value is None else dumps(self.kind, value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """The value; a text that does not fit the type is an error that shows its beginning."""
        if value is None:
            return None
        try:
            return loads(self.kind, value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StoreError(
                f"the database holds {value[:80]!r} where a {self.kind} is expected ({error}):"
                " was it written by a newer version?"
            ) from error
