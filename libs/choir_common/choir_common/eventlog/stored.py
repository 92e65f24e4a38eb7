"""Conversion of a `session_events` row to an event. Used by control and by the backup check."""

from typing import Any, Protocol

import orjson

from choir_common.wire.events import Event


class Row(Protocol):
    """A row with rev, lane, type, payload (as text), at, hash_prev and hash."""

    def __getitem__(self, name: str, /) -> Any:
        """Return a column."""
        ...


def event_of(session_id: str, row: Row) -> Event:
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
