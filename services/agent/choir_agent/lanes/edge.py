"""The edge lane: takes the user's messages one by one and answers each with a turn (spec 7.1, 7.2).

Fed by `app` with signals. What comes next is `turn`. The queue is drained only when the lane is idle.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.control.client import says_stop
from choir_agent.lanes.edge_states import EdgeState, EdgeTrigger, after
from choir_agent.lanes.think import Thinker
from choir_agent.lanes.turn import Turns
from choir_agent.log.state import TurnState
from choir_agent.settings import CurrentSettings
from choir_common.ids import new_id
from choir_common.wire.events import UserMsg
from choir_common.wire.signals import UserMessageSignal

log = structlog.get_logger("choir.agent.edge")

LANE = "edge"
# Control keeps what is not taken up; more than this many waiting here would only cost memory.
MAX_WAITING = 1_000


class EdgeLane:
    """The lane that talks with the user."""

    def __init__(
        self,
        arbiter: Arbiter,
        thinker: Thinker,
        current: Callable[[], CurrentSettings],
        on_state: Callable[[EdgeState], None],
    ) -> None:
        self._arbiter = arbiter
        self._on_state = on_state
        self._waiting: deque[UserMessageSignal] = deque()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._turn: asyncio.Task[None] | None = None
        self._stopping = False
        self.state = EdgeState.IDLE
        self._turns = Turns(LANE, arbiter, thinker, current, self._move, lambda: self._stopping)

    async def take(self, message: UserMessageSignal) -> None:
        """Queue a message, once however often it is offered; waits while too many are queued."""
        await self._room.wait()
        queued = any(message.inbox_id == other.inbox_id for other in self._waiting)
        if queued or self._arbiter.has_taken(message.inbox_id):
            return
        self._waiting.append(message)
        self._wake.set()
        if len(self._waiting) >= MAX_WAITING:
            self._room.clear()

    async def run(self) -> None:
        """Go on with a turn that was cut off, then answer messages until told to stop."""
        if self._arbiter.state.turn is not None:
            log.info("going on with an interrupted turn")
            self._move(EdgeTrigger.USER_MESSAGE)
            await self._run_turn()
        while not self._stopping:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            message = self._waiting.popleft()
            self._room.set()
            self._begin(message)
            await self._run_turn()
        self._move(EdgeTrigger.TERMINATE)

    def cancel_turn(self) -> None:
        """Stop what is being done now; the user is told."""
        if self._turn is not None:
            self._turn.cancel()

    def stop(self) -> None:
        """Take no further message and end the turn at its next safe point."""
        self._stopping = True
        self._wake.set()

    def _begin(self, message: UserMessageSignal) -> None:
        self._move(EdgeTrigger.USER_MESSAGE)
        payload = UserMsg(
            turn_id=new_id("turn"),
            inbox_id=message.inbox_id,
            dm=message.dm,
            text=message.text,
        )
        self._arbiter.commit(LANE, payload)

    async def _run_turn(self) -> None:
        self._turn = asyncio.create_task(self._turns.run_turn())
        try:
            await asyncio.wait({self._turn})
        except asyncio.CancelledError:
            # the whole agent ends: nothing more is to be written
            self._turn.cancel()
            await asyncio.wait({self._turn})
            raise
        turn, self._turn = self._turn, None
        left = self._arbiter.state.turn
        error = None if turn.cancelled() else turn.exception()
        if error is not None:
            self._after_error(error, left)
        elif left is not None and self._stopping:
            self._turns.stop(left)
        elif left is not None:
            self._turns.cancel(left)

    def _after_error(self, error: BaseException, left: TurnState | None) -> None:
        # the lane's outermost frame: a bug ends its turn, only control's word ends the agent
        if left is None or not isinstance(error, Exception) or says_stop(error):
            raise error
        log.error("a turn broke", turn_id=left.turn_id, exc_info=error)
        self._turns.break_off(left)

    def _move(self, trigger: EdgeTrigger) -> None:
        self.state = after(self.state, trigger)
        self._on_state(self.state)
