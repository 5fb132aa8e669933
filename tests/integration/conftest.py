"""Fixtures of all integration tests: what is started once serves the whole run."""

from tests.integration.postgres import postgres_server

__all__ = ["postgres_server"]
