"""Hash chain of a session's events, and the search for its first broken link.

`hash = sha256(hash_prev || canonical JSON of the event without hash_prev and hash)`. Canonical JSON is
orjson output with sorted keys, in UTF-8, without spaces, so the same event has the same hash on every
machine. Also reads a stored event from its row, and verifies what remains of an erased log. See
docs/design/log-and-recovery.md.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import orjson

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.events import GENESIS, Event, EventPayload, render_payload
from choir_common.wire.model import JsonObject, format_log_time

HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class LogHead:
    """The last event of a chain; revision 0 and the genesis hash before the first event."""

    rev: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first event that does not fit the chain, and the reason."""

    rev: int
    reason: str


def canonical_json(value: JsonObject) -> bytes:
    """Return the canonical JSON that is hashed and stored.

    Raises InvalidRequest for values that JSON with 64-bit numbers cannot represent.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise InvalidRequest(
            _("an event contains a value that JSON cannot represent: {error}").format(error=error)
        ) from error


def event_hash(event: Event) -> str:
    """Return the hash an event must have, computed from its other fields."""
    body = canonical_json(
        {
            "session_id": event.session_id,
            "rev": event.rev,
            "lane": event.lane,
            "type": event.type,
            "payload": event.payload,
            "at": event.at,
        }
    )
    return hashlib.sha256(event.hash_prev.encode() + body).hexdigest()


def link_event(
    head: LogHead, session_id: str, lane: str, payload: EventPayload, at: datetime
) -> Event:
    """Return a new event that follows `head`."""
    unsealed = Event(
        session_id=session_id,
        rev=head.rev + 1,
        lane=lane,
        type=payload.type,
        payload=render_payload(payload),
        at=format_log_time(at),
        hash_prev=head.hash,
        hash="",
    )
    return unsealed.model_copy(update={"hash": event_hash(unsealed)})


def head_of(event: Event) -> LogHead:
    """Return the head of a chain that ends with `event`."""
    return LogHead(event.rev, event.hash)


def find_break(events: Iterable[Event], start: LogHead | None = None) -> ChainBreak | None:
    """Return the first event that does not follow from `start` and the events before it, or None."""
    head = start or LogHead()
    for event in events:
        if event.rev != head.rev + 1:
            return ChainBreak(
                event.rev,
                _("revision {rev} follows {before}: events are missing").format(
                    rev=event.rev, before=head.rev
                ),
            )
        if event.hash_prev != head.hash:
            return ChainBreak(event.rev, _("its hash_prev is not the hash of the event before it"))
        if event.hash != event_hash(event):
            return ChainBreak(event.rev, _("its content does not match its hash"))
        head = head_of(event)
    return None


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


def count_hashes(hashes: bytes) -> int:
    """Return the number of events that have a hash in `hashes`."""
    return len(hashes) // HASH_BYTES


def verify_hashes(hashes: bytes, head: LogHead) -> str:
    """Return why the hashes do not belong to a log that ends at `head`; empty if they do."""
    if len(hashes) != head.rev * HASH_BYTES:
        return _("{count} hashes are stored for {rev} events").format(
            count=count_hashes(hashes), rev=head.rev
        )
    if hashes[-HASH_BYTES:].hex() != head.hash:
        return _("the last stored hash differs from the hash of the session's head")
    return ""
