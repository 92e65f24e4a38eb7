"""One turn: from a user's message, or a due report, to exactly one closing reply.

The loop has no state besides the log: it reads the folded state, makes the next move, and repeats.
"""

from typing import assert_never

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.limits import (
    BudgetExceeded,
    BudgetName,
    budget_question,
    core_job_refusal,
    exhausted_budget,
    exhausted_event,
)
from choir_agent.lanes.attachment_reader import AttachmentReader
from choir_agent.lanes.edge_states import EdgeStateTracker, EdgeTrigger
from choir_agent.lanes.model_caller import INTERRUPTED, ModelCaller
from choir_agent.lanes.reminder_lookup import ReminderLookup
from choir_agent.lanes.scheduled_job import job_of_schedule
from choir_agent.lanes.skill_steps import SkillStepper
from choir_agent.lanes.turn_moves import (
    CallModel,
    CancelTurn,
    EmptyAnswer,
    NotUnderstood,
    RunTools,
    SendAnswer,
    StartJob,
    TurnLimitReached,
    check_crashes,
    next_turn_move,
)
from choir_agent.lanes.voice_answers import SILENT, SpokenAnswer, VoiceAnswers
from choir_agent.log.session_state import CallState, TurnState
from choir_agent.settings import SettingsSource
from choir_common.wire.agent_questions import is_question_dm
from choir_common.wire.config import Budgets
from choir_common.wire.events import Reply, ReplyKind, UserMessageStarted
from choir_common.wire.schedules import NOTHING_TO_SAY
from choir_models.model import ModelFailed

log = structlog.get_logger("choir.agent.turn")

SPAWN_TOOL = "choir.core.spawn"
MARKS = " \t\r\n.!*_`'\"“”"
"""Characters that a model may put around a fixed answer."""


class TurnRunner:
    """Runner of the open turn of an edge lane."""

    def __init__(
        self,
        lane: str,
        *,
        arbiter: Arbiter,
        model: ModelCaller,
        skills: SkillStepper,
        attachments: AttachmentReader,
        reminders: ReminderLookup,
        voice: VoiceAnswers,
        settings: SettingsSource,
        state: EdgeStateTracker,
    ) -> None:
        self._lane = lane
        self._arbiter = arbiter
        self._model = model
        self._skills = skills
        self._attachments = attachments
        self._reminders = reminders
        self._voice = voice
        self._settings = settings
        self._state = state

    async def run_turn(self) -> None:
        """Make moves until the open turn has its closing reply; each iteration begins at a safe point."""
        opened = self._arbiter.state.turn_in(self._lane)
        if opened is not None and opened.scheduled is None and check_crashes(opened) is None:
            await self._attachments.read(opened)
            if not opened.quiet:  # its words are the same each time
                await self._reminders.remind(opened.turn_id)
        while (turn := self._arbiter.state.turn_in(self._lane)) is not None:
            move = next_turn_move(turn, self._budgets())
            match move:
                case SendAnswer():
                    await self._answer(turn, move.text)
                case NotUnderstood():
                    text = f"I could not transcribe your voice message: {move.problem}"
                    self._close(turn, EdgeTrigger.CANCEL, "error", text)
                case EmptyAnswer() if turn.quiet:
                    self._close(turn, EdgeTrigger.FINISH, "silent", NOTHING_TO_SAY)
                case EmptyAnswer():
                    text = "The model returned an empty answer. Please ask again."
                    self._close(turn, EdgeTrigger.FINISH, "error", text)
                case TurnLimitReached():
                    text = f"I stopped before I was finished: {move.reason}."
                    self._close(turn, EdgeTrigger.BUDGET_EXCEEDED, "error", text)
                case CancelTurn():
                    self.cancel(turn)
                case CallModel() | StartJob() if (budget := self._exhausted()) is not None:
                    self._ask_for_budget(turn, budget)
                case CallModel():
                    await self._think(turn)
                case StartJob():
                    self._start_job(turn, move.message)
                case RunTools():
                    await self._use(turn, move.calls)
                case _:
                    assert_never(move)

    def cancel(self, turn: TurnState) -> None:
        """Close the turn because the user cancelled it, or sent another message while it was answered.

        What the user has seen of the answer is the reply, so that nothing disappears, and so is an answer
        that was being spoken.
        """
        self._arbiter.close_open_calls(self._lane, turn.turn_id)
        seen = turn.output if _is_reply(turn) else None
        if seen is None or turn.cancelled:
            self._skills.cancel(self._lane, turn.turn_id)
        if seen is not None:
            self._close(turn, EdgeTrigger.CANCEL, "answer", seen.text)
            return
        # Kind `error`, not `notice`: only an answer or an error closes a message for control and
        # channels.
        self._close(turn, EdgeTrigger.CANCEL, "error", "Cancelled.")

    def close_after_error(self, turn: TurnState) -> None:
        """Close the turn because of a bug in this agent."""
        text = "An internal error occurred while I worked on this; see the log for details."
        self._close(turn, EdgeTrigger.CANCEL, "error", text)

    async def _answer(self, turn: TurnState, text: str) -> None:
        """Close the turn with an answer, also spoken if the user's message was."""
        if turn.quiet and is_nothing_to_say(text):
            self._close(turn, EdgeTrigger.FINISH, "silent", text)
            return
        if not turn.spoken:
            self._close(turn, EdgeTrigger.FINISH, "answer", text)
            return
        spoken = await self._voice.speak(self._lane, turn.turn_id, text)
        if spoken.refusal is not None:
            self._arbiter.record_refusal(self._lane, turn.turn_id, spoken.refusal)
        self._close(turn, EdgeTrigger.FINISH, "answer", text, spoken=spoken)
        if spoken.problem:
            note = f"I could not speak my answer: {spoken.problem}"
            self._arbiter.commit(
                self._lane, Reply(turn_id=None, dm=turn.dm, text=note, kind="notice")
            )

    async def _think(self, turn: TurnState) -> None:
        if self._skills.settle(self._lane, turn.turn_id):
            return
        self._state.move(EdgeTrigger.CALL_MODEL)
        try:
            await self._model.think(turn)
        except BudgetExceeded as error:
            self._close(turn, EdgeTrigger.BUDGET_EXCEEDED, "error", error.message)
        except ModelFailed as error:
            log.warning(
                "turn ended by a failed model call", turn_id=turn.turn_id, error=error.message
            )
            self._close(
                turn, EdgeTrigger.MODEL_ERROR, "error", self._model.explain(error, self._lane)
            )

    async def _use(self, turn: TurnState, calls: tuple[CallState, ...]) -> None:
        # A spawn returns at once, so the lane is not shown as waiting for a tool.
        if all(state.call.tool == SPAWN_TOOL for state in calls):
            self._state.move(EdgeTrigger.SPAWN)
            await self._arbiter.run_calls(self._lane, turn.turn_id, calls)
            return
        self._state.move(EdgeTrigger.TOOL_PROPOSAL)
        await self._arbiter.run_calls(self._lane, turn.turn_id, calls)
        self._state.move(EdgeTrigger.TOOL_RESULT)

    def _start_job(self, turn: TurnState, message: UserMessageStarted) -> None:
        state = self._arbiter.state
        refusal = core_job_refusal(state, self._budgets(), lane=self._lane)
        if refusal is not None:
            self._close(turn, EdgeTrigger.BUDGET_EXCEEDED, "error", str(refusal["message"]))
            return
        self._state.move(EdgeTrigger.START_JOB)
        started = job_of_schedule(message, state)
        self._arbiter.commit(self._lane, started)
        self._state.move(EdgeTrigger.DELIVERED)
        log.info("turn started a core job", turn_id=turn.turn_id, job=started.job_name)

    def _exhausted(self) -> BudgetName | None:
        return exhausted_budget(self._arbiter.state, self._budgets())

    def _ask_for_budget(self, turn: TurnState, budget: BudgetName) -> None:
        event = exhausted_event(
            budget, self._arbiter.state, self._budgets(), dm=turn.dm, lane=self._lane
        )
        if event is not None:  # only another conversation was asked
            self._arbiter.commit(self._lane, event, more_follows=True)
        text = budget_question(budget, self._arbiter.state, self._budgets())
        self._close(turn, EdgeTrigger.BUDGET_EXCEEDED, "error", text)

    def _close(
        self,
        turn: TurnState,
        trigger: EdgeTrigger,
        kind: ReplyKind,
        text: str,
        *,
        spoken: SpokenAnswer = SILENT,
    ) -> None:
        self._arbiter.close_open_calls(self._lane, turn.turn_id)
        self._state.move(trigger)
        if turn.subject is not None:
            # A report is always sent: with the prepared text if the model wrote none.
            text = text if kind == "answer" else turn.brief
            kind = "report"
        reply = Reply(
            turn_id=turn.turn_id,
            dm=turn.dm,
            text=text,
            kind=kind,
            answers=turn.inbox_id,
            attachments=spoken.files,
            usage=spoken.usage,
            holds=self._arbiter.state.taint.lane(self._lane) if is_question_dm(turn.dm) else None,
        )
        self._arbiter.commit(self._lane, reply)
        self._state.move(EdgeTrigger.DELIVERED)
        log.info("turn closed", turn_id=turn.turn_id, kind=kind, steps=turn.steps)

    def _budgets(self) -> Budgets:
        return self._settings.current().settings.budgets


def is_nothing_to_say(text: str) -> bool:
    """Return whether an answer is the fixed one that nobody is shown, whatever marks are around it."""
    return text.strip(MARKS).casefold() == NOTHING_TO_SAY.casefold()


def _is_reply(turn: TurnState) -> bool:
    """Return whether the model's last output closes a turn that is cancelled."""
    output = turn.output
    if output is None or not output.text.strip():
        return False
    is_complete = turn.spoken and not output.tool_calls and not turn.news
    return is_complete or output.finish_reason == INTERRUPTED
