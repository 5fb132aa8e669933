"""The machine with a real systemd that all tests here share."""

from tests.rigs.systemd.machine import machine

__all__ = ["machine"]
