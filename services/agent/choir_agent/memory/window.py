"""Choose the newest events for the prompt, cut only where one turn ends and the next begins.

Fed by `log` with every event; read by the turn, whose next stop is `prompt`. When there are more
events than the window takes, it drops old turns down to half at once: the prompt's beginning then stays
the same for many turns, which is what a provider's prefix cache lives on.
"""

from collections import deque
from dataclasses import dataclass, field

from choir_agent.log.committed import Committed
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

    def __init__(self) -> None:
        self._turns: deque[WindowTurn] = deque()
        self._size = 0

    def take_in(self, event: Committed) -> None:
        """Add the next event of the log; those a prompt has no use for are passed over."""
        payload = event.payload
        match payload:
            case UserMsg():
                self._turns.append(WindowTurn(payload.turn_id, [payload]))
                self._size += 1
            case ModelOutput() | ToolResultCommitted() | Reply():
                # what belongs to no turn of ours (a tail may begin inside one) is left out
                turn = self._turns[-1] if self._turns else None
                if turn is not None and turn.turn_id == payload.turn_id:
                    turn.events.append(payload)
                    self._size += 1
            case _:
                pass

    def turns(self, limit: int) -> tuple[WindowTurn, ...]:
        """Return the turns that fit into `limit` events, the newest always among them."""
        if self._size > limit:
            while len(self._turns) > 1 and self._size > limit // 2:
                self._size -= len(self._turns.popleft().events)
        return tuple(self._turns)
