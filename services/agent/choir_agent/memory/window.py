"""Choose the newest events for the prompt, cut only where one turn ends and the next begins.

Called by the turn; its result goes to `prompt`. It reads each event of the log once. When there are more
events than the window takes, it drops old turns down to half at once: the prompt's beginning then stays
the same for many turns, which is what a provider's prefix cache lives on.
"""

from collections import deque
from dataclasses import dataclass, field

from choir_agent.log.session_log import Entry, SessionLog
from choir_common.wire.events import (
    ModelOutput,
    Reply,
    ToolResultCommitted,
    UserMsg,
)

Spoken = UserMsg | ModelOutput | ToolResultCommitted | Reply


@dataclass(slots=True)
class WindowTurn:
    """The events of one turn that a prompt is made of, oldest first."""

    turn_id: str
    events: list[Spoken] = field(default_factory=list)


class EventWindow:
    """The last turns of the log, whole."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._read = 0
        self._turns: deque[WindowTurn] = deque()
        self._size = 0

    def turns(self, limit: int) -> tuple[WindowTurn, ...]:
        """Return the turns that fit into `limit` events, the newest always among them."""
        for entry in self._log.entries[self._read :]:
            self._take_in(entry)
        self._read = len(self._log.entries)
        if self._size > limit:
            while len(self._turns) > 1 and self._size > limit // 2:
                self._size -= len(self._turns.popleft().events)
        return tuple(self._turns)

    def _take_in(self, entry: Entry) -> None:
        match entry.payload:
            case UserMsg():
                self._turns.append(WindowTurn(entry.payload.turn_id, [entry.payload]))
                self._size += 1
            case ModelOutput() | ToolResultCommitted() | Reply():
                # what belongs to no turn of ours (a tail may begin inside one) is left out
                turn = self._turns[-1] if self._turns else None
                if turn is not None and turn.turn_id == entry.payload.turn_id:
                    turn.events.append(entry.payload)
                    self._size += 1
            case _:
                pass
