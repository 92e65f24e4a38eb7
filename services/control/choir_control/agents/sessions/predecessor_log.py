"""The part of an ended session's log that the next session continues.

Normally the end of the log. After a reset only the reference summary, or nothing; after a person had a
period forgotten, the log as it was before that period.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from choir_common.wire.events import Event
from choir_control.log.eventlog.recovery_store import LogTailReader
from choir_control.log.retention.reset_store import SessionReset, SessionResetStore

CARRIED = "carried_event"
SESSION_HEAD_TYPES = ("session_started", CARRIED)
"""The first events of a session. A log that ends with one may lack copies of its predecessor's events."""
FOLDED_TYPES = ("snapshot", "memory_compacted")
"""Events with a reference summary of all events before them."""
SUMMARY_TYPES = ("session_started", *FOLDED_TYPES)


class PredecessorLogReader:
    """Reader of the events that the next session may copy."""

    def __init__(self, logs: LogTailReader, resets: SessionResetStore) -> None:
        self._logs = logs
        self._resets = resets

    async def read(self, session_id: str, head_rev: int) -> list[Event]:
        """Return the newest events of a session that were not erased by its reset."""
        reset = await self._resets.get(session_id)
        if reset is None:
            return await self._logs.tail(session_id, head_rev)
        match reset.carries:
            case "nothing":
                return []
            case "summary":
                tail = await self._logs.tail(session_id, head_rev)
                return [event for event in tail if event.type in SUMMARY_TYPES]
            case "rest":
                return await self._read_outside_period(session_id, head_rev, reset)

    async def _read_outside_period(
        self, session_id: str, head_rev: int, reset: SessionReset
    ) -> list[Event]:
        """Return the events before the forgotten period, and those after it."""
        before: list[Event] = []
        if reset.since is not None:
            last_rev = await self._resets.find_last_rev_before(session_id, reset.since)
            # a summary from later would contain the period, so the tail ends before it
            before = await self._logs.tail(session_id, last_rev) if last_rev else []
        after: Iterable[Event] = ()
        if reset.until is not None:
            after = await self._logs.tail(session_id, head_rev)
        return [*drop_forgotten(before, reset), *drop_summaries(after, reset.until, before)]


def drop_forgotten(events: Iterable[Event], reset: SessionReset) -> Iterator[Event]:
    """Yield the events without copies of events from the forgotten period."""
    for event in events:
        at = event.payload.get("at") if event.type == CARRIED else None
        if not (isinstance(at, str) and reset.forgets(datetime.fromisoformat(at))):
            yield event


def drop_summaries(
    events: Iterable[Event], since: datetime | None, earlier: Iterable[Event]
) -> Iterator[Event]:
    """Yield the events since a time that are not `earlier` and that summarize nothing from before it."""
    earlier_revs = {event.rev for event in earlier}
    for event in events:
        is_later = since is not None and datetime.fromisoformat(event.at) >= since
        if is_later and event.rev not in earlier_revs and event.type not in FOLDED_TYPES:
            yield event
