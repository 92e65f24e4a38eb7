"""Stored logs: conversion of a `session_events` row, and verification of what remains of an erased log."""

from typing import Any, Protocol

import orjson

from choir_common.eventlog.chain import LogHead
from choir_common.wire.events import Event


class EventRow(Protocol):
    """A row with rev, lane, type, payload (as text), at, hash_prev and hash."""

    def __getitem__(self, name: str, /) -> Any:
        """Return a column."""
        ...


def event_from_row(session_id: str, row: EventRow) -> Event:
    """Return the event in a row of this session's log."""
    return Event(
        session_id=session_id,
        rev=row["rev"],
        lane=row["lane"],
        type=row["type"],
        payload=orjson.loads(row["payload"]),
        at=row["at"],
        hash_prev=row["hash_prev"],
        hash=row["hash"],
    )


HASH_BYTES = 32


def count_hashes(hashes: bytes) -> int:
    """Return the number of events that have a hash in `hashes`."""
    return len(hashes) // HASH_BYTES


def verify_hashes(hashes: bytes, head: LogHead) -> str:
    """Return why the hashes do not belong to a log that ends at `head`; empty if they do."""
    if len(hashes) != head.rev * HASH_BYTES:
        return f"{count_hashes(hashes)} hashes are kept of its {head.rev} events"
    if hashes[-HASH_BYTES:].hex() != head.hash:
        return "the last stored hash differs from the hash of the session's head"
    return ""
