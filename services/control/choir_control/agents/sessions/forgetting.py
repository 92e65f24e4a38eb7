"""Forget what an agent remembers, and what its conversation, its logs and its messages still contain.

A request without a digest is a preview and changes nothing. Carried out, memory goes first: it refuses a
selection that changed since its preview, and from then on it stores no later events of it. Then the resets
are stored, and a running agent is started again, because its prompt contains what was erased.
`SessionContentEraser` erases the logs, messages and files.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import structlog

from choir_common.clients.memory import MemoryAdminClient
from choir_common.clock import Clock
from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _
from choir_common.wire.memory_forget import (
    ConversationMessage,
    ForgetMemory,
    ForgetReport,
    ForgetResult,
    ForgetScope,
    ForgetSelection,
    ResetKind,
    ResetRequest,
)
from choir_common.wire.memory_modes import INCOGNITO
from choir_control.agents.host_tools.memory import MemoryTools
from choir_control.agents.sessions.record import REASON_FORGET, SessionRow
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.archiving.archiver import SessionArchiver
from choir_control.log.retention.reset_store import SessionReset, SessionResetStore

log = structlog.get_logger("choir.forgetting")

FUTURE = timedelta(minutes=5)
"""Tolerance for the clocks of a person's device and of this machine."""
FIRST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Start of a period that has none."""
Conversation = Literal["kept", "summary", "nothing", "rest"]


@dataclass(frozen=True, slots=True)
class _Effects:
    """What a selection changes outside of memory."""

    conversation: Conversation = "kept"
    resets: Mapping[str, SessionReset] = field(default_factory=dict)
    """Resets by session; the logs of these sessions are erased."""
    unsearched: bool = False


class ForgetService:
    """Service that previews and carries out erasures and resets."""

    def __init__(
        self,
        *,
        sessions: SessionStore,
        resets: SessionResetStore,
        starter: SessionStarter,
        stopper: SessionStopper,
        archiver: SessionArchiver,
        configuration: ConfigService,
        memory: MemoryAdminClient,
        spaces: MemoryTools,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._resets = resets
        self._starter = starter
        self._stopper = stopper
        self._archiver = archiver
        self._configuration = configuration
        self._memory = memory
        self._spaces = spaces
        self._clock = clock

    async def forget(
        self, agent_id: str, selection: ForgetSelection, actor: str = "operator"
    ) -> ForgetReport:
        """Return a preview, or erase what the preview with `expected_digest` showed.

        Raises InvalidRequest, NotFound, Conflict when the selection changed, and Unavailable while memory is
        unavailable; then nothing was erased.
        """
        if agent_id in self._configuration.current.config.agents:
            await self._spaces.ensure_space(agent_id)
        selection = limit_to_past(selection, self._clock.now())
        newest = await self._find_newest(agent_id)
        if selection.expected_digest is not None and newest is not None and newest.is_live:
            # before anything is erased: a restart that cannot succeed must not stop the agent
            await self._starter.check_restart(agent_id)
        effects = await self._effects(agent_id, selection, newest)
        is_stopping = effects.conversation == "rest" and selection.until is None
        result = await self._memory.forget(
            ForgetMemory(
                agent_id=agent_id,
                selection=selection,
                actor=actor,
                stopping=newest.session_id if is_stopping and newest is not None else None,
            )
        )
        if selection.words is not None and selection.scope == "everything":
            effects = await self._effects_of_words(agent_id, newest, result.sessions)
        report = await self._report(agent_id, result, effects, newest)
        if result.erased:
            await self._apply(agent_id, effects, newest if report.restarts else None)
        return report

    async def _report(
        self, agent_id: str, result: ForgetResult, effects: _Effects, newest: SessionRow | None
    ) -> ForgetReport:
        """Return the report; read before the erasure, which the logs do not survive."""
        messages: Sequence[ConversationMessage] = ()
        message_count, summary_chars = 0, 0
        is_changed = effects.conversation != "kept" and newest is not None
        if newest is not None and effects.conversation != "kept":
            session_id = newest.session_id
            reset = effects.resets[session_id]
            messages, message_count = await self._resets.list_messages(session_id, reset)
            if effects.conversation == "summary":
                summary_chars = await self._resets.count_summary_chars(session_id)
        return ForgetReport(
            agent_id=agent_id,
            memory=result,
            conversation=effects.conversation,
            messages=tuple(messages),
            message_count=message_count,
            logs=tuple(effects.resets),
            restarts=is_changed and newest is not None and newest.is_live,
            summary_chars=summary_chars,
            earlier_until=_earlier_until(effects, newest),
            unsearched=effects.unsearched,
        )

    async def reset(
        self, agent_id: str, request: ResetRequest, actor: str = "operator"
    ) -> ForgetReport:
        """Preview or carry out a reset of the newest conversation; raises the errors of `forget`."""
        selection = await self.select_conversation(agent_id, request.kind)
        selection = selection.model_copy(update={"expected_digest": request.expected_digest})
        return await self.forget(agent_id, selection, actor)

    async def select_conversation(self, agent_id: str, kind: ResetKind) -> ForgetSelection:
        """Return the selection of a reset; raises Conflict when the agent has had no conversation."""
        newest = await self._find_newest(agent_id)
        if newest is None:
            raise Conflict(
                _("{agent} has had no conversation yet. Nothing was done.").format(agent=agent_id)
            )
        scope: ForgetScope = "said" if kind == "history" else "everything"
        return ForgetSelection(scope=scope, session_id=newest.session_id)

    async def _find_newest(self, agent_id: str) -> SessionRow | None:
        sessions = await self._sessions.list_page(agent_id, None, 1)
        return sessions[0] if sessions else None

    async def _effects(
        self, agent_id: str, selection: ForgetSelection, newest: SessionRow | None
    ) -> _Effects:
        """Return the effects of a selection without words; those depend on what memory finds."""
        without_words = selection.document is None and selection.words is None
        if selection.scope == "learned" or not without_words:
            return _Effects()
        if selection.since is None and selection.until is None:
            return await self._effects_of_session(agent_id, selection, newest)
        return await self._effects_of_period(agent_id, selection, newest)

    async def _effects_of_session(
        self, agent_id: str, selection: ForgetSelection, newest: SessionRow | None
    ) -> _Effects:
        session_id = selection.session_id
        if session_id is None or not await self._resets.list_own(agent_id, [session_id]):
            return _Effects()
        carries: Literal["summary", "nothing"] = (
            "summary" if selection.scope == "said" else "nothing"
        )
        resets = {session_id: SessionReset(carries)}
        is_newest = newest is not None and newest.session_id == session_id
        return _Effects(carries if is_newest else "kept", resets)

    async def _effects_of_words(
        self, agent_id: str, newest: SessionRow | None, session_ids: Collection[str]
    ) -> _Effects:
        # the newest log is continued, and its events are not searched for words
        newest_id = newest.session_id if newest is not None else None
        resets = {
            session_id: SessionReset("nothing")
            for session_id in await self._resets.list_own(agent_id, session_ids)
            if session_id != newest_id
        }
        return _Effects(resets=resets, unsearched=newest is not None)

    async def _effects_of_period(
        self, agent_id: str, selection: ForgetSelection, newest: SessionRow | None
    ) -> _Effects:
        since, until = selection.since, selection.until
        overlapping = await self._resets.list_overlapping(agent_id, since, until)
        resets = {
            session_id: SessionReset("nothing")
            for session_id in overlapping
            if selection.session_id in (None, session_id)
        }
        if newest is None:
            return _Effects(resets=resets)
        is_shown = (
            newest.session_id in resets
            or await self._resets.has_copies_from(newest.session_id, since, until)
            # it is starting, and may have read what it will copy
            or (newest.continues in resets and not await self._resets.has_begun(newest.session_id))
        )
        if not is_shown:
            return _Effects(resets=resets)
        resets[newest.session_id] = SessionReset("rest", since, until)
        return _Effects("rest", resets)

    async def _apply(self, agent_id: str, effects: _Effects, running: SessionRow | None) -> None:
        # stored before the stop, so that the next start continues correctly even after a crash of control
        for session_id, reset in effects.resets.items():
            await self._resets.put(session_id, reset)
        log.info(
            "conversation erased",
            agent=agent_id,
            conversation=effects.conversation,
            logs=len(effects.resets),
        )
        if effects.conversation != "kept":
            stopped = await self._stopper.stop(agent_id, REASON_FORGET)
            # open work belongs to what was erased
            await self._stopper.give_up(agent_id, REASON_FORGET)
            if running is not None and stopped is not None:
                await self._starter.restart(agent_id, running.initial_bindings, running.image)
        self._archiver.wake()


def limit_to_past(selection: ForgetSelection, now: datetime) -> ForgetSelection:
    """Return a selection until now if it ends later; what is said afterwards must be remembered.

    Raises InvalidRequest if it begins later.
    """
    if selection.since is not None and selection.since > now + FUTURE:
        raise InvalidRequest(
            _("{since:%Y-%m-%d %H:%M} UTC is in the future.").format(since=selection.since)
        )
    if selection.until is None or selection.until <= now:
        return selection
    return selection.model_copy(update={"since": selection.since or FIRST_TIME, "until": None})


def _earlier_until(effects: _Effects, newest: SessionRow | None) -> datetime | None:
    """Return until when earlier sessions lasted that a reset keeps; None without any."""
    is_reset = effects.conversation in ("summary", "nothing")
    if newest is None or newest.continues is None or not is_reset:
        return None
    if newest.memory_mode == INCOGNITO:
        return None  # memory has nothing of this conversation
    return newest.started_at
