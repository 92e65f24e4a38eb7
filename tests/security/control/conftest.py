"""Fixtures of the attacks on choird: one of its own for each test, over real servers."""

from tests.service.control.conftest import bus, database, dsn, nats, postgres, stopped, world

__all__ = ["bus", "database", "dsn", "nats", "postgres", "stopped", "world"]
