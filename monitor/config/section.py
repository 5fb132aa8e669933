"""What every section of the configuration has in common. It owns no settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def one_of(section: BaseModel, *names: str) -> None:
    """Raises ValueError where all of the settings are given."""
    if all(getattr(section, name) is not None for name in names):
        raise ValueError(f"only one of {' and '.join(names)}")


def exactly_one_of(section: BaseModel, *names: str) -> None:
    """Raises ValueError unless exactly one of the settings is given."""
    if sum(getattr(section, name) is not None for name in names) != 1:
        raise ValueError(f"exactly one of {' and '.join(names)}")
