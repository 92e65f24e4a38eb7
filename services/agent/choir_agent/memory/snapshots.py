"""Snapshots of the state in the log at regular intervals, so that recovery time is bounded.

Called by the arbiter after each commit. After a crash, control sends the log's tail from `window_from` of
the newest snapshot.
"""

import orjson

from choir_agent.log.session_log import SessionLog
from choir_agent.log.state import dump
from choir_agent.memory.working import WorkingMemory
from choir_common.wire.events import Snapshot

EVERY = 200
LANE = "session"
LARGEST = 900_000
"""Bytes. The state of open jobs and turns may be larger than an event should be."""
PAUSE = 20
"""Events until the next attempt, if the state was too large."""


class Snapshots:
    """Writer of due snapshots."""

    def __init__(self, memory: WorkingMemory, every: int = EVERY) -> None:
        self._memory = memory
        self._every = every
        self._not_before = 0

    def follow(self, session_log: SessionLog) -> None:
        """Append a snapshot if one is due and the session has not ended."""
        state = session_log.state
        due_at = max(self._memory.snapshot_rev + self._every, self._not_before)
        if state.rev < due_at or state.stopped:
            return
        dumped = dump(state)
        if len(orjson.dumps(dumped)) > LARGEST:
            self._not_before = state.rev + PAUSE
            return
        window_from = self._memory.needed_from(state.rev + 1)
        session_log.append(LANE, Snapshot(state=dumped, window_from=window_from))
