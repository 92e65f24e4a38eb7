"""The edge lane of a conversation: takes its messages one at a time and answers each in a turn.

When idle it first reports outcomes of core jobs and decisions, then takes the next message. The lanes of the
other conversations run at the same time (`conversation_lanes`). See docs/design/lanes.md.
"""

import asyncio
from datetime import datetime
from typing import Protocol

import structlog

from choir_agent import tracing_spans
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.limits import parse_grant
from choir_agent.budgets.money import parse_money_grant
from choir_agent.control_client.control_client import is_session_over
from choir_agent.lanes.attachment_reader import AttachmentReader
from choir_agent.lanes.edge_states import EdgeState, EdgeStateTracker, EdgeTrigger
from choir_agent.lanes.lane_status import LaneStateRecorder
from choir_agent.lanes.message_queue import MessageQueue
from choir_agent.lanes.model_caller import ModelCaller
from choir_agent.lanes.reminder_lookup import ReminderLookup
from choir_agent.lanes.skill_steps import SkillStepper
from choir_agent.lanes.turn_runner import TurnRunner
from choir_agent.lanes.voice_answers import VoiceAnswers
from choir_agent.lanes.voice_notes import HeardMessage, VoiceNotes
from choir_agent.log.session_state import DueReport, TurnState
from choir_agent.settings import SettingsSource
from choir_common.clock import Clock
from choir_common.ids import new_id
from choir_common.wire.events import (
    Cancelled,
    InjectedInstruction,
    Reply,
    ReportBegun,
    TurnParked,
    TurnUnparked,
    UserMessageStarted,
)
from choir_common.wire.people_config import DECIDING_ROLES
from choir_common.wire.prompt_marks import format_sent_line
from choir_common.wire.signals import InjectSignal, MessageSender, UserMessageSignal
from choir_common.wire.speakers import MessageSpeaker

log = structlog.get_logger("choir.agent.edge")

STOPPED_BY_MESSAGE = "[I stopped here because of your next message.]"
STOPPED_BY_USER = "[I stopped here, as you asked.]"
ANSWERED_TOGETHER = (
    "[Your next message came before I had written anything. I answer both together now.]"
)
UNWRITTEN_S = 5.0
"""How long the first call of a turn goes on without a word although the next message waits."""


class LeftMessages(Protocol):
    """Messages that were left in control because the queue of their conversation was full."""

    def fetch_again(self, lane: str) -> None:
        """Fetch the messages of a conversation that were left, if there are any."""


class EdgeLane:
    """The lane that talks to the user in one conversation."""

    def __init__(
        self,
        lane: str,
        *,
        arbiter: Arbiter,
        model: ModelCaller,
        skills: SkillStepper,
        attachments: AttachmentReader,
        reminders: ReminderLookup,
        voice_notes: VoiceNotes,
        voice_answers: VoiceAnswers,
        settings: SettingsSource,
        clock: Clock,
        status: LaneStateRecorder,
        left_messages: LeftMessages,
    ) -> None:
        self._lane = lane
        self._arbiter = arbiter
        self._model = model
        self._settings = settings
        self._clock = clock
        self._status = status
        self._left_messages = left_messages
        self._state = EdgeStateTracker(lane, status)
        self._wake = asyncio.Event()
        self._queue = MessageQueue(voice_notes, self._wake)
        self._turn_task: asyncio.Task[None] | None = None
        self._unwritten_check: asyncio.TimerHandle | None = None
        self._has_ended_unwritten = False
        """Whether the current turn was ended because of the next message."""
        self._answers_together = False
        """Whether the current turn follows one that was ended so."""
        self._message_traceparent: str | None = None
        self._stopping = False
        self._parked_to_recheck = 0
        """Number of parked turns to resume before anything else, because a human has decided on
        something."""
        arbiter.wake_on_approval_wait(self._wake)
        self._turns = TurnRunner(
            lane,
            arbiter=arbiter,
            model=model,
            skills=skills,
            attachments=attachments,
            reminders=reminders,
            voice=voice_answers,
            settings=settings,
            state=self._state,
        )

    def queue_message(self, message: UserMessageSignal) -> bool:
        """Queue a message; duplicates are ignored. Return False if the queue is full.

        If the user sees an answer being written, a person's message interrupts it. It also ends a first call
        that writes nothing for long, and the next call answers both messages.
        """
        if message.inbox_id in self._queue or self._arbiter.has_message(message.inbox_id):
            return True
        if self._queue.is_full:
            return False
        # In a group somebody else may write meanwhile, which stops no answer.
        is_from_person = message.wake_up is None and not _is_in_group(message)
        if is_from_person and self._model.record_interrupted(self._lane, STOPPED_BY_MESSAGE):
            self.interrupt()
        self._queue.put(message)
        self._end_unwritten_call()
        return True

    def wake(self) -> None:
        """Look for work: a report may be due."""
        self._wake.set()

    def recheck_parked_turns(self) -> None:
        """Resume the parked turns in order to check their calls again."""
        self._parked_to_recheck = len(self._arbiter.state.parked_in(self._lane))
        self._wake.set()

    async def run(self) -> None:
        """Finish an interrupted turn, then report and answer until `stop` is called."""
        structlog.contextvars.bind_contextvars(lane=self._lane)
        self._status.record_state(self._lane, self._state.state)
        async with self._queue:
            while not self._stopping:
                if self._open_turn is not None:
                    await self._run_turn()
                elif not self._begin_next():
                    self._show_transcription()
                    self._wake.clear()
                    await self._wake.wait()

    def terminate(self) -> None:
        """End the lane, after `run` and with its session; send the remaining reports if that has no open
        work."""
        # A suspended session makes its reports after the resume; one that ends must send them now.
        if not self._arbiter.state.has_open_work:
            self._report_without_model()
        self._state.move(EdgeTrigger.TERMINATE)

    def inject(self, injection: InjectSignal, signal: int) -> None:
        """Add the user's text to what the model reads at its next safe point.

        A turn is not closed before its model has read the text. While the lane is idle, the text is read
        with the next message.
        """
        turn_id = self._open_turn_id()
        injected = InjectedInstruction(
            target=self._lane,
            turn_id=turn_id,
            text=injection.text,
            by="user",
            signal=signal,
            sent=self._sent(injection.sent_at),
            speaker=_speaker(injection.sender),
        )
        self._arbiter.commit(self._lane, injected)

    def cancel_turn(self, signal: int) -> None:
        """Cancel the current turn and parked turns at the user's request; each is replied to."""
        self._model.record_interrupted(self._lane, STOPPED_BY_USER)
        turns = self._arbiter.state.parked_in(self._lane)
        parked = [turn.turn_id for turn in turns if not turn.cancelled]
        opened = self._open_turn_id()
        turn_ids = [opened, *parked] if opened is not None or not parked else parked
        # The events come first: the interrupted task reads from the log that it was cancelled.
        for number, turn_id in enumerate(turn_ids, 1):
            cancelled = Cancelled(target=self._lane, turn_id=turn_id, by="user", signal=signal)
            # One write: a signal is not repeated once its first event is durable.
            self._arbiter.commit(self._lane, cancelled, more_follows=number < len(turn_ids))
        if opened is None:
            self._queue.cancel_transcription()
        self.interrupt()
        self._wake.set()

    def stop(self) -> None:
        """Take no more messages. The open turn still finishes, and core jobs continue until then."""
        self._stopping = True
        self._queue.close()
        self._wake.set()

    def interrupt(self) -> None:
        """Interrupt the current turn. When the arbiter is suspending, the next epoch resumes it."""
        if self._turn_task is not None:
            self._turn_task.cancel()

    def _end_unwritten_call(self) -> None:
        """End the turn if its first call has written nothing for long and a person's message is the next.

        Later calls of a turn go on: a message beside work with tools is no order to stop it. Looks again
        while the call may become due.
        """
        turn = self._open_turn
        if turn is None or turn.inbox_id is None or turn.steps or self._stopping:
            return
        # Once in a row: somebody who asks again and again would otherwise never get an answer.
        following = self._queue.next_written
        if following is None or turn.cancelled or self._answers_together:
            return
        if _is_in_group(following):
            return
        if self._model.record_unwritten(self._lane, ANSWERED_TOGETHER, UNWRITTEN_S):
            self._has_ended_unwritten = True
            self.interrupt()
            return
        if self._unwritten_check is not None:
            self._unwritten_check.cancel()
        loop = asyncio.get_running_loop()
        self._unwritten_check = loop.call_later(UNWRITTEN_S, self._end_unwritten_call)

    @property
    def _open_turn(self) -> TurnState | None:
        return self._arbiter.state.turn_in(self._lane)

    def _open_turn_id(self) -> str | None:
        turn = self._open_turn
        return None if turn is None else turn.turn_id

    def _begin_next(self) -> bool:
        """Begin the next piece of work, reports first; return whether there was any.

        Parked turns are resumed when a human has decided, or when nothing else is to be done.
        """
        reports = self._arbiter.state.reports_in(self._lane)
        parked = self._next_parked()
        is_due = self._parked_to_recheck or not (reports or self._queue.is_ready)
        if parked is not None and (parked.cancelled or is_due):
            # Each parked turn is tried once, because the decision may concern any of them.
            self._parked_to_recheck = max(0, self._parked_to_recheck - 1)
            self._arbiter.commit(self._lane, TurnUnparked(turn_id=parked.turn_id))
            return True
        if reports:
            self._begin_report(reports[0])
            return True
        if not self._queue.is_ready:
            return False
        self._begin(self._queue.take())
        if self._queue.has_room:
            self._left_messages.fetch_again(self._lane)
        return True

    def _show_transcription(self) -> None:
        """Report the state of the lane if the next message waits for its transcript."""
        if self._queue.is_transcribing and self._state.state is EdgeState.IDLE:
            self._state.move(EdgeTrigger.VOICE_MESSAGE)

    def _next_parked(self) -> TurnState | None:
        """Return the parked turn to resume first, a cancelled one before others.

        While the lane is in a skill, only cancelled ones are resumed: the turns were parked outside of that
        skill, and its state would refuse their calls.
        """
        state = self._arbiter.state
        parked = state.parked_in(self._lane)
        cancelled = next((turn for turn in parked if turn.cancelled), None)
        if cancelled is not None or state.skill_of(self._lane) is not None:
            return cancelled
        return next(iter(parked), None)

    def _begin(self, transcript: HeardMessage) -> None:
        message, budgets = transcript.message, self._settings.current().settings.budgets
        state = self._arbiter.state
        grant = None
        is_decider = message.sender is None or message.sender.role in DECIDING_ROLES
        if message.wake_up is None and is_decider:  # only a person grants a budget
            grant = parse_grant(message.text, state, budgets, lane=self._lane)
            if grant is None and not _is_in_group(message):  # control takes no money from a group
                grant = parse_money_grant(message.text, state, self._clock.now(), lane=self._lane)
        if grant is not None:
            # Commit the grant first: after a crash in between, the message is delivered again and
            # starts an ordinary turn.
            self._arbiter.commit(self._lane, grant.event(message.inbox_id), more_follows=True)
        if transcript.refusal is not None:
            exhausted = transcript.refusal.event(
                self._arbiter.state, budgets, dm=message.dm, lane=self._lane
            )
            if exhausted is not None:
                self._arbiter.commit(self._lane, exhausted, more_follows=True)
        payload = UserMessageStarted(
            turn_id=new_id("turn"),
            inbox_id=message.inbox_id,
            dm=message.dm,
            text=message.text,
            attachments=message.attachments,
            edits=message.edits,
            corrects=message.corrects,
            reply_to=message.reply_to,
            sent=self._sent(message.sent_at),
            speaker=_speaker(message.sender),
            wake_up=message.wake_up,
            usage=transcript.usage,
        )
        self._arbiter.commit(self._lane, payload)
        self._message_traceparent = message.traceparent

    def _sent(self, sent_at: datetime | None) -> str:
        settings = self._settings.current().settings
        if sent_at is None or not settings.features.message_times:
            return ""
        last = self._arbiter.state.last_message_in(self._lane)
        previous = datetime.fromisoformat(last) if last else None
        return format_sent_line(sent_at, self._clock.now(), settings.timezone, previous)

    def _now(self) -> str:
        return self._sent(self._clock.now())

    def _begin_report(self, due: DueReport) -> None:
        event = ReportBegun(
            turn_id=new_id("turn"),
            dm=due.dm,
            subject=due.subject,
            brief=due.brief,
            time=self._now(),
        )
        self._arbiter.commit(self._lane, event)

    def _report_without_model(self) -> None:
        """Send the remaining reports without a model, because the session ends."""
        owed = [due for due in self._arbiter.state.due if due.lane == self._lane]
        for due in owed:
            self._begin_report(due)
            turn = self._open_turn
            if turn is not None:
                reply = Reply(turn_id=turn.turn_id, dm=due.dm, text=due.brief, kind="report")
                self._arbiter.commit(self._lane, reply)

    async def _run_turn(self) -> None:
        opened = self._open_turn
        self._answers_together, self._has_ended_unwritten = self._has_ended_unwritten, False
        report = opened is not None and opened.subject is not None
        self._state.move(EdgeTrigger.REPORT if report else EdgeTrigger.USER_MESSAGE)
        self._turn_task = asyncio.create_task(self._run_spanned(opened))
        try:
            parks = await self._wait_for_end_or_park(self._turn_task)
        except asyncio.CancelledError:
            # The whole agent ends: write nothing more.
            self._turn_task.cancel()
            await asyncio.wait({self._turn_task})
            raise
        turn, self._turn_task = self._turn_task, None
        unfinished = self._open_turn
        error = None if turn.cancelled() else turn.exception()
        if error is not None:
            self._after_error(error, unfinished)
        elif unfinished is None:
            return
        elif parks and not unfinished.cancelled:
            self._state.move(EdgeTrigger.PARK)
            self._arbiter.commit(self._lane, TurnParked(turn_id=unfinished.turn_id))
            log.info("turn parked until a human decides", turn_id=unfinished.turn_id)
        # Neither finished nor suspended: close it, so that the message gets its reply.
        elif unfinished.cancelled or not self._arbiter.is_suspending:
            self._turns.cancel(unfinished)

    async def _wait_for_end_or_park(self, turn: asyncio.Task[None]) -> bool:
        """Wait for the end of a turn; return whether it was interrupted so that it can be parked."""
        # Clear `_wake` before checking, so that no wake-up between check and wait is lost.
        while not turn.done():
            self._wake.clear()
            opened = self._open_turn
            if opened is not None and self._can_park(opened):
                with self._arbiter.parking_turn(opened.turn_id):
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

    def _can_park(self, turn: TurnState) -> bool:
        """Return whether a turn only waits for a human while there is other work."""
        state = self._arbiter.state
        if turn.cancelled or self._stopping or not self._arbiter.is_waiting_for_human(turn.turn_id):
            return False
        return bool(
            self._queue.is_ready
            or state.reports_in(self._lane)
            or (self._parked_to_recheck and state.parked_in(self._lane))
        )

    async def _run_spanned(self, turn: TurnState | None) -> None:
        traceparent, self._message_traceparent = self._message_traceparent, None
        with tracing_spans.lane_span(self._lane, turn.turn_id if turn else "", traceparent):
            await self._turns.run_turn()

    def _after_error(self, error: BaseException, turn: TurnState | None) -> None:
        # Outermost frame of the lane: a bug ends its turn; only an error from control ends the agent.
        if turn is None or not isinstance(error, Exception) or is_session_over(error):
            raise error
        log.error("turn failed with an internal error", turn_id=turn.turn_id, exc_info=error)
        self._turns.close_after_error(turn)


def _speaker(sender: MessageSender | None) -> MessageSpeaker | None:
    """Return who wrote a message, as the log stores it."""
    if sender is None:
        return None
    return MessageSpeaker(name=sender.name, role=sender.role, display_name=sender.display_name)


def _is_in_group(message: UserMessageSignal) -> bool:
    return message.sender is not None and message.sender.is_in_group
