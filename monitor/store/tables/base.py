"""The base of all tables: the naming of their constraints and the column type of every type in the model."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Boolean, Double, Integer, MetaData
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeEngine

from monitor.model.alert import AlertState, Fingerprint, Severity, SilenceId
from monitor.model.decision import Action, DecisionId, DecisionState, Reason
from monitor.model.life import LifeId, StartEvidence
from monitor.model.notice import DeliveryState, NoticeId, NoticeKind
from monitor.model.record import CommandKind
from monitor.model.rollout import ChangeId, ChangeState, Outcome, RolloutId, RolloutState
from monitor.model.server import GroupName, ServerName
from monitor.store.columns import Moment, PlainText, Word

#: Names of constraints and indexes follow from their columns, so that a later migration can address each of them.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

_WORDS = (
    AlertState,
    Severity,
    Action,
    DecisionState,
    Reason,
    StartEvidence,
    DeliveryState,
    NoticeKind,
    CommandKind,
    ChangeState,
    Outcome,
    RolloutState,
)
_ENUMS: dict[Any, TypeEngine[Any]] = {kind: Word(kind) for kind in _WORDS}
_IDS = (str, Fingerprint, SilenceId, DecisionId, LifeId, NoticeId, ChangeId, RolloutId, GroupName, ServerName)
_TEXTS: dict[Any, TypeEngine[Any]] = dict.fromkeys(_IDS, PlainText())


class Base(DeclarativeBase):
    """Base of every table. A column is named as its field in the model, but for words that SQL keeps for itself."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: Moment(),
        bool: Boolean(),
        int: Integer(),
        float: Double(),
        **_TEXTS,
        **_ENUMS,
    }


class Record(Base):
    """Base of tables that hold one class of the model, a row a value (`monitor/store/records.py`)."""

    __abstract__ = True

    #: JSON of the fields that have no column yet, so that adding a field with a default needs no migration.
    more: Mapped[str | None] = mapped_column(sort_order=1)
