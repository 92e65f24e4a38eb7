"""The edge lane: takes the user's messages one at a time and answers each in a turn.

`receive` passes signals to it, and it listens to all committed events; the turn itself runs in `turn`. When
idle it first reports outcomes of core jobs and decisions, then takes the next message. The core jobs run
inside its `run` and end before it does. See docs/design/lanes.md.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime

import structlog

from choir_agent import spans
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.question import answer_to
from choir_agent.control.client import says_stop
from choir_agent.lanes.edge_states import EdgeState, EdgeTrigger, after
from choir_agent.lanes.jobs import CoreJobs
from choir_agent.lanes.remind import Reminding
from choir_agent.lanes.skill_steps import SkillSteps
from choir_agent.lanes.think import Thinker
from choir_agent.lanes.turn import Turns
from choir_agent.log.committed import Committed
from choir_agent.log.state import EDGE, Due, TurnState
from choir_agent.settings import CurrentSettings
from choir_common.clock import Clock
from choir_common.ids import new_id
from choir_common.wire.events import (
    Cancelled,
    InjectedInstruction,
    Reply,
    ReportBegun,
    TurnParked,
    TurnUnparked,
    UserMsg,
)
from choir_common.wire.signals import InjectSignal, UserMessageSignal
from choir_common.wire.time_zones import sent_line

log = structlog.get_logger("choir.agent.edge")

LANE = EDGE
# Control stores messages until they are taken up; a longer queue here would only use memory.
MAX_WAITING = 1_000


class EdgeLane:
    """The lane that talks to the user."""

    def __init__(
        self,
        arbiter: Arbiter,
        thinker: Thinker,
        jobs: CoreJobs,
        skills: SkillSteps,
        reminding: Reminding,
        current: Callable[[], CurrentSettings],
        clock: Clock,
        on_state: Callable[[EdgeState], None],
    ) -> None:
        self._arbiter = arbiter
        self._jobs = jobs
        self._current = current
        self._clock = clock
        self._on_state = on_state
        self._waiting: deque[UserMessageSignal] = deque()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._turn: asyncio.Task[None] | None = None
        self._brought_by: str | None = None
        self._stopping = False
        self._to_try = 0
        """Number of parked turns to resume before anything else, because a human has decided on
        something."""
        self.state = EdgeState.IDLE
        arbiter.when_asking(self._wake.set)
        self._turns = Turns(LANE, arbiter, thinker, skills, reminding, current, self._move)

    async def take(self, message: UserMessageSignal) -> None:
        """Queue a message; duplicates are ignored. Wait while the queue is full."""
        # Back-pressure: while the queue is full, no further signal is read.
        await self._room.wait()
        queued = any(message.inbox_id == other.inbox_id for other in self._waiting)
        if queued or self._arbiter.has_taken(message.inbox_id):
            return
        self._waiting.append(message)
        self._wake.set()
        if len(self._waiting) >= MAX_WAITING:
            self._room.clear()

    def take_in(self, event: Committed) -> None:
        """Wake the lane after a committed event: a report may be due."""
        self._wake.set()

    def decided(self) -> None:
        """Resume the parked turns in order to check their calls again."""
        self._to_try = len(self._arbiter.state.parked)
        self._wake.set()

    async def run(self) -> None:
        """Finish an interrupted turn, then report and answer until `stop` is called."""
        structlog.contextvars.bind_contextvars(lane=LANE)
        async with self._jobs:
            while not self._stopping:
                if self._arbiter.state.turn is not None:
                    await self._run_turn()
                elif not self._begin_next():
                    self._wake.clear()
                    await self._wake.wait()
        # A suspended session makes its reports after the resume; one that ends must send them now.
        if not self._arbiter.state.has_open_work:
            self._report_plainly()
        self._move(EdgeTrigger.TERMINATE)

    def inject(self, said: InjectSignal, signal: int) -> None:
        """Add the user's text to what the model reads at its next safe point.

        A turn is not closed before its model has read the text. While the lane is idle, the text is read
        with the next message.
        """
        turn_id = self._open_turn_id()
        injected = InjectedInstruction(
            target=LANE,
            turn_id=turn_id,
            text=said.text,
            by="user",
            signal=signal,
            sent=self._sent(said.sent_at),
        )
        self._arbiter.commit(LANE, injected)

    def cancel_turn(self, signal: int) -> None:
        """Cancel the current turn and parked turns at the user's request; each is replied to."""
        parked = [turn.turn_id for turn in self._arbiter.state.parked if not turn.cancelled]
        opened = self._open_turn_id()
        turn_ids = [opened, *parked] if opened is not None or not parked else parked
        # The events come first: the interrupted task reads from the log that it was cancelled.
        for number, turn_id in enumerate(turn_ids, 1):
            cancelled = Cancelled(target=LANE, turn_id=turn_id, by="user", signal=signal)
            # One write: a signal is not repeated once its first event is durable.
            self._arbiter.commit(LANE, cancelled, more_follows=number < len(turn_ids))
        self.interrupt()
        self._wake.set()

    def interrupt(self) -> None:
        """Cancel the task of the current turn."""
        if self._turn is not None:
            self._turn.cancel()

    def stop(self) -> None:
        """Take no more messages. The open turn still finishes, and core jobs continue until then."""
        self._stopping = True
        self._wake.set()

    def leave_open(self) -> None:
        """Interrupt the turn without writing events about it: the next epoch resumes it."""
        self._arbiter.leave_open()
        self.interrupt()

    def _open_turn_id(self) -> str | None:
        turn = self._arbiter.state.turn
        return None if turn is None else turn.turn_id

    def _begin_next(self) -> bool:
        """Begin the next piece of work, reports first; return whether there was any.

        Parked turns are resumed when a human has decided, or when nothing else is to be done.
        """
        state = self._arbiter.state
        parked = self._next_parked()
        is_due = self._to_try or not (state.unbegun or self._waiting)
        if parked is not None and (parked.cancelled or is_due):
            # Each parked turn is tried once, because the decision may concern any of them.
            self._to_try = max(0, self._to_try - 1)
            self._arbiter.commit(LANE, TurnUnparked(turn_id=parked.turn_id))
            return True
        if state.unbegun:
            self._begin_report(state.unbegun[0])
            return True
        if not self._waiting:
            return False
        self._begin(self._waiting.popleft())
        self._room.set()
        return True

    def _next_parked(self) -> TurnState | None:
        """Return the parked turn to resume first, a cancelled one before others.

        While the lane is in a skill, only cancelled ones are resumed: the turns were parked outside of that
        skill, and its state would refuse their calls.
        """
        state = self._arbiter.state
        cancelled = next((turn for turn in state.parked if turn.cancelled), None)
        if cancelled is not None or state.skill(LANE) is not None:
            return cancelled
        return next(iter(state.parked), None)

    def _begin(self, message: UserMessageSignal) -> None:
        budgets = self._current().settings.budgets
        grant = answer_to(message.text, self._arbiter.state, budgets)
        if grant is not None:
            # Commit the grant first: after a crash in between, the message is delivered again and
            # starts an ordinary turn.
            self._arbiter.commit(LANE, grant.event(message.inbox_id), more_follows=True)
        payload = UserMsg(
            turn_id=new_id("turn"),
            inbox_id=message.inbox_id,
            dm=message.dm,
            text=message.text,
            attachments=message.attachments,
            edits=message.edits,
            corrects=message.corrects,
            reply_to=message.reply_to,
            sent=self._sent(message.sent_at),
        )
        self._arbiter.commit(LANE, payload)
        self._brought_by = message.traceparent

    def _sent(self, sent_at: datetime | None) -> str:
        settings = self._current().settings
        if sent_at is None or not settings.features.message_times:
            return ""
        return sent_line(sent_at, self._clock.now(), settings.timezone)

    def _begin_report(self, due: Due) -> None:
        begun = ReportBegun(turn_id=new_id("turn"), dm=due.dm, subject=due.subject, brief=due.brief)
        self._arbiter.commit(LANE, begun)

    def _report_plainly(self) -> None:
        """Send the remaining reports without a model, because the session ends."""
        for due in self._arbiter.state.due:
            self._begin_report(due)
            turn = self._arbiter.state.turn
            if turn is not None:
                told = Reply(turn_id=turn.turn_id, dm=due.dm, text=due.brief, kind="report")
                self._arbiter.commit(LANE, told)

    async def _run_turn(self) -> None:
        opened = self._arbiter.state.turn
        report = opened is not None and opened.subject is not None
        self._move(EdgeTrigger.REPORT if report else EdgeTrigger.USER_MESSAGE)
        self._turn = asyncio.create_task(self._run_spanned(opened))
        try:
            parks = await self._ended_or_parks(self._turn)
        except asyncio.CancelledError:
            # The whole agent ends: write nothing more.
            self._turn.cancel()
            await asyncio.wait({self._turn})
            raise
        turn, self._turn = self._turn, None
        left = self._arbiter.state.turn
        error = None if turn.cancelled() else turn.exception()
        if error is not None:
            self._after_error(error, left)
        elif left is not None and parks and not left.cancelled:
            self._move(EdgeTrigger.PARK)
            self._arbiter.commit(LANE, TurnParked(turn_id=left.turn_id))
            log.info("a turn is put aside: it waits for a human", turn_id=left.turn_id)
        # Neither finished nor suspended: close it, so that the message gets its reply.
        elif left is not None and (left.cancelled or not self._arbiter.leaves_open):
            self._turns.cancel(left)

    async def _ended_or_parks(self, turn: asyncio.Task[None]) -> bool:
        """Wait for the end of a turn; return whether it was interrupted so that it can be parked."""
        # Clear `_wake` before checking, so that no wake-up between check and wait is lost.
        while not turn.done():
            self._wake.clear()
            opened = self._arbiter.state.turn
            if opened is not None and self._may_park(opened):
                with self._arbiter.parking(opened.turn_id):
                    turn.cancel()
                    await asyncio.wait({turn})
                # The turn may have finished just before the cancellation.
                return turn.cancelled()
            woken = asyncio.create_task(self._wake.wait())
            try:
                await asyncio.wait({turn, woken}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
        return False

    def _may_park(self, turn: TurnState) -> bool:
        """Return whether a turn only waits for a human while there is other work."""
        state = self._arbiter.state
        if turn.cancelled or self._stopping or not self._arbiter.waits_for_human(turn.turn_id):
            return False
        return bool(self._waiting or state.unbegun or (self._to_try and state.parked))

    async def _run_spanned(self, turn: TurnState | None) -> None:
        brought_by, self._brought_by = self._brought_by, None
        with spans.lane_work(LANE, turn.turn_id if turn else "", brought_by):
            await self._turns.run_turn()

    def _after_error(self, error: BaseException, left: TurnState | None) -> None:
        # Outermost frame of the lane: a bug ends its turn; only an error from control ends the agent.
        if left is None or not isinstance(error, Exception) or says_stop(error):
            raise error
        log.error("a turn broke", turn_id=left.turn_id, exc_info=error)
        self._turns.break_off(left)

    def _move(self, trigger: EdgeTrigger) -> None:
        before, self.state = self.state, after(self.state, trigger)
        log.info("lane state", lane=LANE, state=self.state, before=before, trigger=trigger)
        self._on_state(self.state)
