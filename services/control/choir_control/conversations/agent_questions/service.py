"""Asking of other agents: the tools `choir.agent.ask` and `choir.agent.stop`, as control runs them.

A question takes the way of a user's message: the inbox stores it once, under the id of the question, and the
other agent answers in a turn. The row of the question only says whose it is, so a repeated call finds the
same message and the same answer.
"""

import asyncio
from datetime import timedelta

import structlog

from choir_common.clock import Clock
from choir_common.errors import Conflict, Forbidden, RateLimited
from choir_common.ids import new_id
from choir_common.keyed_lock import KeyedLock
from choir_common.wire.agent_questions import (
    MAX_ANSWER,
    AgentAnswer,
    AgentQuestion,
    QuestionOrigin,
    QuestionStop,
    is_question_dm,
    question_dm,
)
from choir_common.wire.config import AgentConfig
from choir_common.wire.events import Reply
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.messages import Empty, InboundMessage
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.schedules import WakeUp
from choir_common.wire.signals import CancelSignal
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.configuration.current import ConfigService
from choir_control.configuration.memory_readers import MemoryReaders
from choir_control.conversations.agent_questions.records import (
    AnswerMissing,
    AskingAgents,
    QuestionProgress,
    StoredQuestion,
    UnsettledQuestion,
)
from choir_control.conversations.agent_questions.store import QuestionStore
from choir_control.conversations.inbox.service import InboxService
from choir_control.conversations.inbox.store import InboxStore
from choir_control.log.leases.store import Lease
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier
from choir_control.log.signals.store import SignalStore

log = structlog.get_logger("choir.questions")

HOUR = timedelta(hours=1)
WAIT_S = 20.0
"""How long one request of an agent waits; then the agent repeats it."""
LOOK_S = 0.5
MAX_ORIGINS = 6
SWEEP_INTERVAL_S = 5.0
ORPHAN_AFTER = timedelta(minutes=1)


class AgentQuestionService:
    """Handlers of the tools; agent, session and conversation always come from the lease."""

    def __init__(
        self,
        store: QuestionStore,
        *,
        configuration: ConfigService,
        inbox: InboxService,
        inbox_store: InboxStore,
        signals: SignalStore,
        signal_locks: SignalLocks,
        notifier: Notifier,
        clock: Clock,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._inbox = inbox
        self._inbox_store = inbox_store
        self._signals = signals
        self._signal_locks = signal_locks
        self._notifier = notifier
        self._clock = clock
        self._locks = KeyedLock()
        self._has_unsettled = True
        """Whether a question may be unsettled: after a start that is not known."""

    async def ask(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Ask another agent, once per call, and wait a while for the answer.

        Raises Forbidden, RateLimited and Conflict for a question that is not sent, and AnswerMissing.
        """
        request = parse_tool_input(AgentQuestion, arguments)
        # Calls at the same time must not exceed the number together.
        async with self._locks.of(lease.agent_id):
            question = await self._store.find(lease.session_id, call_id)
            if question is None:
                question = await self._create(lease, call_id, request)
            progress = await self._store.read_progress(question.question_id)
            if progress is None or (not progress.is_stored and progress.state == "open"):
                # also after a crash between the two statements
                await self._send(question, request)
        return await self._wait(question)

    async def stop(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """End the question of a call: nobody waits for its answer any more."""
        parse_tool_input(QuestionStop, arguments)
        question = await self._store.find(lease.session_id, call_id)
        if question is not None:
            await self._store.end(question.question_id, "cancelled", self._clock.now())
            self._has_unsettled = True
            await self.sweep()
        return Empty()

    async def sweep(self) -> None:
        """End questions whose time is over, and the turns for which nobody waits any more."""
        if not self._has_unsettled:
            return
        now = self._clock.now()
        unsettled = await self._store.list_unsettled(now)
        self._has_unsettled = bool(unsettled)
        for question in unsettled:
            if question.state != "open":
                await self._end_turn(question)

    async def _create(self, lease: Lease, call_id: str, request: AgentQuestion) -> StoredQuestion:
        snapshot = self._configuration.current
        asking = snapshot.agent(lease.agent_id)
        _check_allowed(lease, asking, request.agent)
        _check_person(lease, MemoryReaders(snapshot.people))
        askers = await self._find_askers(lease)
        askers.check_next(request.agent)
        dm = question_dm(lease.agent_id, request.agent)
        if not await self._is_running(dm):
            raise Conflict(
                f"{request.agent} is not running, or does not serve your questions yet. Nothing was sent; "
                "tell the user."
            )
        now = self._clock.now()
        if await self._store.count_since(lease.agent_id, now - HOUR) >= asking.asks_per_hour:
            raise RateLimited(
                f"{lease.agent_id} has asked other agents {asking.asks_per_hour} times within an hour, the "
                f"maximum (agents.{lease.agent_id}.asks_per_hour). Nothing was sent."
            )
        question_id = new_id("question")
        question = StoredQuestion(
            question_id=question_id,
            asking_agent=lease.agent_id,
            asking_session=lease.session_id,
            call_id=call_id,
            answering_agent=request.agent,
            dm=dm,
            gateway=snapshot.gateway_of(dm) or "",
            askers=askers.agents,
            first_question=askers.first_question or question_id,
            asked_at=now,
            deadline_at=now + timedelta(seconds=request.timeout_s),
        )
        await self._store.add(question)
        log.info("agent asks", question=question_id, asking=lease.agent_id, dm=dm)
        return question

    async def _is_running(self, dm: str) -> bool:
        bound = await self._inbox_store.find_bound_session(dm)
        return bound is not None and bound.status != "stopping"

    async def _find_askers(self, lease: Lease) -> AskingAgents:
        """Return for whom an agent asks: in a conversation for questions, for the agent that asked there."""
        current = await self._store.find_current(lease.dm) if is_question_dm(lease.dm) else None
        if current is None:
            return AskingAgents((lease.agent_id,))
        return AskingAgents((*current.askers, lease.agent_id), current.first_question)

    async def _send(self, question: StoredQuestion, request: AgentQuestion) -> None:
        origin = QuestionOrigin(
            question_id=question.question_id,
            agent=question.asking_agent,
            session_id=question.asking_session,
            call_id=question.call_id,
            askers=question.askers,
            first_question=question.first_question,
            holds=request.holds.model_copy(
                update={
                    "outside": request.holds.outside[-MAX_ORIGINS:],
                    "private": request.holds.private[-MAX_ORIGINS:],
                }
            ),
        )
        source = f"agent {question.asking_agent}"
        summary = f"a question of the {source}, from its session {question.asking_session}"
        message = InboundMessage(
            gateway=question.gateway,
            dm=question.dm,
            update_id=question.update_id,
            text=request.question,
            sent_at=question.asked_at,
        )
        wake_up = WakeUp(summary=summary, by_agent=False, outside=source, question=origin)
        await self._inbox.accept(message, wake_up)
        self._has_unsettled = True

    async def _wait(self, question: StoredQuestion) -> AgentAnswer:
        deadline = self._clock.monotonic() + WAIT_S
        while True:
            progress = await self._store.read_progress(question.question_id)
            if progress is None:
                raise AnswerMissing("The question was erased.")
            if progress.is_answered:
                return await self._take_answer(question, progress)
            await self._raise_if_over(question, progress)
            if self._clock.monotonic() >= deadline:
                return AgentAnswer(
                    state="open",
                    agent=question.answering_agent,
                    question_id=question.question_id,
                    session_id=progress.session_id or "",
                )
            await asyncio.sleep(LOOK_S)

    async def _take_answer(
        self, question: StoredQuestion, progress: QuestionProgress
    ) -> AgentAnswer:
        now, agent = self._clock.now(), question.answering_agent
        if progress.reply is None:
            raise AnswerMissing(f"The answer of {agent} was erased.")
        reply = Reply.model_validate_json(progress.reply)
        if reply.kind == "error":
            await self._store.end(question.question_id, "failed", now)
            raise AnswerMissing(f"{agent} could not answer: {reply.text[:2_000]}")
        await self._store.end(question.question_id, "answered", now)
        return AgentAnswer(
            state="answered",
            agent=agent,
            question_id=question.question_id,
            answer=reply.text[:MAX_ANSWER],
            session_id=progress.session_id or "",
            holds=reply.holds,
        )

    async def _raise_if_over(self, question: StoredQuestion, progress: QuestionProgress) -> None:
        now, agent = self._clock.now(), question.answering_agent
        if progress.state == "cancelled":
            raise AnswerMissing("The question was cancelled.")
        if progress.is_closed:
            await self._store.end(question.question_id, "failed", now)
            raise AnswerMissing(f"{agent} ended without an answer.")
        if progress.state == "expired" or now >= question.deadline_at:
            await self._store.end(question.question_id, "expired", now)
            waited = round((question.deadline_at - question.asked_at).total_seconds())
            why = "" if await self._is_running(question.dm) else f", and {agent} is not running now"
            raise AnswerMissing(
                f"{agent} has not answered within {waited} s{why}. Its work on the question is ended."
            )

    async def _end_turn(self, question: UnsettledQuestion) -> None:
        """Cancel the turn of an ended question; one that no session has taken up yet is looked at later."""
        if question.session_id is not None:
            async with self._signal_locks.of(question.dm):
                cancel = CancelSignal(dm=question.dm)
                seq = await self._signals.send(question.session_id, cancel)
            if seq is not None:
                self._notifier.notify(question.session_id)
        now = self._clock.now()
        is_orphan = not question.is_stored and (
            question.ended_at is not None and now - question.ended_at > ORPHAN_AFTER
        )
        if question.session_id is not None or is_orphan:
            await self._store.settle(question.question_id)


def _check_allowed(lease: Lease, asking: AgentConfig, answering: str) -> None:
    if answering not in asking.may_ask:
        names = ", ".join(sorted(asking.may_ask)) or "none"
        raise Forbidden(
            f"{lease.agent_id} may not ask {answering!r} (agents.{lease.agent_id}.may_ask in config.json "
            f"has {names})."
        )
    if lease.memory_mode == INCOGNITO:
        raise Forbidden(
            "This conversation is incognito, and another agent would remember the question. Nothing was sent."
        )


def _check_person(lease: Lease, readers: MemoryReaders) -> None:
    """Raise Forbidden if the other agent would learn of one person what it may tell another.

    It has one conversation with the asking agent. So where people's memory is separate, questions come from
    conversations of one person: that of the home conversation.
    """
    home = lease.bindings.dm
    if not readers.shares(lease.agent_id, lease.dm, home, served=lease.served_dms):
        raise Forbidden(
            f"{lease.agent_id} keeps what people tell it apart (memory_between_people), so it asks other "
            f"agents only for the person of its home conversation, {home}. Nothing was sent."
        )
