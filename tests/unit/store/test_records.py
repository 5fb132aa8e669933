"""Values in and out of one table, also where version and table differ by a field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields

import pytest
from sqlalchemy import Connection, create_engine
from sqlalchemy.orm import Mapped, mapped_column

from monitor.errors import StoreError
from monitor.model.alert import Alert, Silence
from monitor.model.decision import Decision
from monitor.model.life import Head, Life, Setting
from monitor.model.notice import Delivery, Notice
from monitor.model.record import (
    AuditEntry,
    Baseline,
    Command,
    Evidence,
    LastGood,
    Pause,
    Rejection,
    ReportRecord,
    Restart,
    RuleTimer,
)
from monitor.model.rollout import Change, Rollout
from monitor.store.records import Records, Shape, shape
from monitor.store.tables import acting, asking, history, telling
from monitor.store.tables.base import Base, Record
from tests.unit.store.samples import sample

STORED = [
    (Life, history.LifeRow),
    (Head, history.HeadRow),
    (Decision, acting.DecisionRow),
    (Rollout, acting.RolloutRow),
    (Change, acting.ChangeRow),
    (Rejection, acting.RejectionRow),
    (Restart, acting.RestartRow),
    (LastGood, acting.LastGoodRow),
    (Baseline, acting.BaselineRow),
    (Alert, telling.AlertRow),
    (Notice, telling.NoticeRow),
    (Delivery, telling.DeliveryRow),
    (ReportRecord, telling.ReportRow),
    (Evidence, telling.EvidenceRow),
    (AuditEntry, telling.AuditRow),
    (Pause, asking.PauseRow),
    (Silence, asking.SilenceRow),
    (Command, asking.CommandRow),
    (RuleTimer, asking.TimerRow),
]


@dataclass(frozen=True, kw_only=True)
class Lamp:
    name: str
    room: str
    lit: bool = False


@dataclass(frozen=True, kw_only=True)
class NewerLamp:
    name: str
    room: str
    lit: bool = False
    colours: tuple[str, ...] = ("white",)
    setting: Setting | None = None


class LampRow(Record):
    __tablename__ = "test_lamps"

    name: Mapped[str] = mapped_column(primary_key=True)
    room: Mapped[str]
    lit: Mapped[bool]


# Not a table of the store: it must not be seen by tests that compare tables and migrations.
LAMPS = LampRow.metadata.tables["test_lamps"]
Base.metadata.remove(LAMPS)


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        LAMPS.create(connection)
        yield connection
    engine.dispose()


@pytest.fixture
def old(connection: Connection) -> Records[Lamp]:
    return Records(connection, Lamp, LampRow)


@pytest.fixture
def new(connection: Connection) -> Records[NewerLamp]:
    return Records(connection, NewerLamp, LampRow)


def test_a_field_without_a_column_comes_back_too(new: Records[NewerLamp]) -> None:
    lamp = NewerLamp(name="l", room="r", lit=True, colours=("red", "blue"), setting=Setting(method="ngram"))
    new.insert([lamp])
    assert new.one(LampRow.name == "l") == lamp
    new.put([NewerLamp(name="l", room="s")])
    assert new.one(LampRow.name == "l") == NewerLamp(name="l", room="s")


def test_versions_read_each_other(old: Records[Lamp], new: Records[NewerLamp]) -> None:
    old.insert([Lamp(name="old", room="r")])
    new.insert([NewerLamp(name="new", room="r", colours=())])
    assert new.many(order=(LampRow.name,)) == [
        NewerLamp(name="new", room="r", colours=()),
        NewerLamp(name="old", room="r"),
    ]
    assert old.many(order=(LampRow.name,)) == [Lamp(name="new", room="r"), Lamp(name="old", room="r")]


def test_a_value_is_stored_once_by_insert_and_again_by_put(old: Records[Lamp]) -> None:
    assert old.insert_if_new(Lamp(name="l", room="r"))
    assert not old.insert_if_new(Lamp(name="l", room="other"))
    assert old.one(LampRow.name == "l") == Lamp(name="l", room="r")
    old.put([Lamp(name="m", room="b"), Lamp(name="l", room="a")])
    assert [lamp.room for lamp in old.many(order=(LampRow.name,))] == ["a", "b"]
    assert [lamp.name for lamp in old.many(order=(LampRow.name.desc(),), limit=1)] == ["m"]


def test_nothing_is_stored_of_nothing(old: Records[Lamp]) -> None:
    old.insert([])
    old.put([])
    assert old.many(order=(LampRow.name,)) == []


def test_what_is_not_there_cannot_be_replaced(old: Records[Lamp]) -> None:
    with pytest.raises(StoreError, match="lamp l: it is not in the store"):
        old.replace(Lamp(name="l", room="r"), "lamp l")


@pytest.mark.parametrize(("model", "row"), STORED, ids=lambda value: value.__name__)
def test_every_field_of_every_class_comes_back(connection: Connection, model: type, row: type[Record]) -> None:
    """Whether it has a column or not; a field added to the model tomorrow is tested tomorrow."""
    row.metadata.tables[row.__tablename__].create(connection)
    value = sample(model)
    for field in fields(model):
        assert getattr(value, field.name) != field.default, field.name
    records: Records[object] = Records(connection, model, row)
    records.insert([value])
    assert records.many(order=()) == [value]
    if "number" not in row.__mapper__.attrs:
        records.put([value])
        records.replace(value, model.__name__)
        assert records.many(order=()) == [value]


@pytest.mark.parametrize(("model", "row"), STORED, ids=lambda value: value.__name__)
def test_every_table_holds_its_class_of_the_model(model: type, row: type[Record]) -> None:
    """Each column is a field or a number of the database's, and each field without a column has a default."""
    found: Shape[object] = shape(model, row)
    names = {field.name for field in fields(model)}
    mapped = set(row.__mapper__.attrs.keys())
    assert mapped - names <= {"more", "number"}
    for field in fields(model):
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        assert field.name in found.names or has_default, f"{model.__name__}.{field.name}"
