"""Switch of a conversation's memory mode and recall.

A session has one memory mode from its start to its end. So a switch ends the session and starts the next one:
what was said before stays as it was, and nothing said incognito is in the prompts of a recorded session.
"""

import structlog

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import Message, _, join
from choir_common.wire.memory_modes import (
    INCOGNITO,
    MEMORY_MODES,
    ConversationMemory,
    MemoryMode,
    RecallSetting,
)
from choir_common.wire.operator import AgentView
from choir_control.agents.sessions.record import REASON_MEMORY_MODE, SessionRow
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.eventlog.store import EventStore
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.leases.conversations import ConversationStore
from choir_control.log.leases.dm_memory import DmMemoryStore, effective_recall
from choir_control.log.signals.notifier import OutboxRescanner

log = structlog.get_logger("choir.sessions")

OPEN = _(
    "{agent} has stopped with open work. Start it again, or cancel its work, before you switch to {mode}. "
    "The mode is still {current}: what you write now is kept as before."
)
WORKING = _(
    "{agent} is still working. Wait for it, or cancel its work, before you switch to {mode}. The mode is "
    "still {current}: what you write now is kept as before."
)
_RECALL: dict[RecallSetting, bool | None] = {"on": True, "off": False, "default": None}


class MemoryModeService:
    """Service that shows and switches how conversations use memory."""

    def __init__(
        self,
        *,
        settings: DmMemoryStore,
        sessions: SessionStore,
        events: EventStore,
        configuration: ConfigService,
        starter: SessionStarter,
        stopper: SessionStopper,
        authenticator: LeaseAuthenticator,
        outbox: OutboxRescanner,
        conversations: ConversationStore,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._events = events
        self._configuration = configuration
        self._starter = starter
        self._stopper = stopper
        self._authenticator = authenticator
        self._outbox = outbox
        self._conversations = conversations

    async def find_dm(self, agent_id: str) -> str:
        """Return an agent's conversation: that of its unfinished session, or its default; raises NotFound."""
        session = await self._sessions.find_unfinished(agent_id)
        if session is not None:
            return session.bindings.dm
        return self._configuration.current.agent(agent_id).defaults.dm

    async def show(self, dm: str, agent_id: str | None = None) -> ConversationMemory:
        """Return how a conversation uses memory; `agent_id` is its agent if no session has it."""
        session = await self._sessions.find_unfinished_in(dm)
        settings = await self._settings.read(session.bindings.dm if session else dm)
        agent_id = session.agent_id if session else agent_id
        mode = session.memory_mode if session else settings.mode
        agent = self._configuration.current.config.agents.get(agent_id or "")
        return ConversationMemory(
            dm=dm,
            agent_id=agent_id,
            session_id=session.session_id if session else None,
            mode=mode,
            recall=effective_recall(mode, settings.recall, agent),
            recall_setting=next(key for key, value in _RECALL.items() if value is settings.recall),
        )

    async def set_recall(
        self, dm: str, recall: RecallSetting, agent_id: str | None = None
    ) -> ConversationMemory:
        """Switch recall from the next use of memory on. Raises Conflict in a further conversation."""
        session = await self._sessions.find_unfinished_in(dm)
        self._require_home(dm, session, agent_id)
        await self._settings.set_recall(dm, _RECALL[recall])
        if session is not None:
            # the cached lease has the previous value
            self._authenticator.forget(session.session_id)
        log.info("recall switched", dm=dm, recall=recall)
        return await self.show(dm, agent_id)

    async def set_mode(self, dm: str, name: str, agent_id: str | None = None) -> ConversationMemory:
        """Switch the memory mode; a session of another mode ends, and the next one starts.

        Raises InvalidRequest for an unknown mode, and Conflict while a message, a turn or a job is
        unfinished: it would end up in a session of the other mode. Also raises Conflict in a further
        conversation, and for incognito while the agent has one.
        """
        mode = parse_mode(name)
        session = await self._sessions.find_unfinished_in(dm)
        self._require_home(dm, session, agent_id)
        if mode == INCOGNITO:
            await self._refuse_incognito(session, agent_id)
        await self._require_no_open_work(dm, session, mode)
        if session is None or session.memory_mode == mode:
            await self._settings.set_mode(dm, mode)
        else:
            await self._switch(session, mode)
        log.info("memory mode switched", dm=dm, mode=mode)
        return await self.show(dm, agent_id)

    async def notify(self, memory: ConversationMemory) -> None:
        """Tell the users of an agent how it uses memory after an operator has changed that."""
        first = _("An operator has changed this conversation.")
        text = join(" ", (first, format_memory(memory)))
        session = await self._sessions.find_unfinished_in(memory.dm)
        for dm in await self._all_dms(memory.dm, session):
            gateway = self._configuration.current.gateway_of(dm)
            if gateway is not None:
                notice = self._configuration.translate(dm, text)
                await self._settings.notify(dm, gateway, notice)
                self._outbox.rescan(dm)

    def _require_home(self, dm: str, session: SessionRow | None, agent_id: str | None) -> None:
        agent = self._configuration.current.config.agents.get(agent_id or "")
        home_dm = dm
        if session is not None:
            home_dm = session.bindings.dm
        elif agent is not None and dm in agent.conversations:
            home_dm = agent.defaults.dm
        if home_dm != dm:
            name = session.agent_id if session else agent_id
            raise Conflict(
                _(
                    "Memory mode and recall are the same in all conversations of {name}. They are switched "
                    "in its home conversation, {home_dm}. Nothing was changed."
                ).format(name=name, home_dm=home_dm)
            )

    async def _refuse_incognito(self, session: SessionRow | None, agent_id: str | None) -> None:
        """Raise Conflict if the agent serves conversations beside its home conversation, or would."""
        if session is not None:
            further = tuple(await self._conversations.list_bound(session.session_id))
        else:
            agent = self._configuration.current.config.agents.get(agent_id or "")
            further = agent.conversations if agent is not None else ()
        if further:
            name = session.agent_id if session else agent_id
            raise Conflict(
                _(
                    "{name} serves further conversations ({further}), and an incognito session has exactly "
                    "one. Remove them from agents.{name}.conversations in config.json first. Nothing was "
                    "changed."
                ).format(name=name, further=", ".join(further))
            )

    async def _require_no_open_work(
        self, dm: str, session: SessionRow | None, mode: MemoryMode
    ) -> None:
        now = session.memory_mode if session else (await self._settings.read(dm)).mode
        if now == mode:
            return
        if session is not None and session.status == "suspended":
            raise Conflict(_open_work(OPEN, session, mode))
        session_id = session.session_id if session else None
        count = await self._settings.count_open_messages(
            await self._all_dms(dm, session), session_id
        )
        if count and session is None:
            raise Conflict(
                _(
                    "{count} messages wait in this conversation and would be read in mode {mode}. Start "
                    "the agent, let it answer them, and switch then. The mode is still {now}."
                ).format(count=count, mode=mode, now=now)
            )
        if session is None:
            return
        if count or await self._events.list_open_jobs(session.session_id):
            raise Conflict(_open_work(WORKING, session, mode))

    async def _all_dms(self, dm: str, session: SessionRow | None) -> list[str]:
        if session is None:
            return [dm]
        return [dm, *await self._conversations.list_bound(session.session_id)]

    async def _switch(self, session: SessionRow, mode: MemoryMode) -> None:
        agent_id, bindings = session.agent_id, session.initial_bindings
        # before the stop: a switch that cannot succeed must not stop the agent
        await self._starter.check(agent_id, bindings, session.image)
        stopped = await self._stopper.stop(agent_id, REASON_MEMORY_MODE)
        if stopped is not None and stopped.status == "suspended":
            # work began meanwhile: it goes on in the mode in which it began
            await self._starter.restart(agent_id, bindings, session.image)
            raise Conflict(_open_work(WORKING, session, mode))
        await self._settings.set_mode(session.bindings.dm, mode)
        await self._starter.restart(agent_id, bindings, session.image)


def format_memory(memory: ConversationMemory | AgentView) -> str:
    """Return a sentence for users about how a conversation uses memory."""
    mode = memory.mode if isinstance(memory, ConversationMemory) else memory.memory_mode
    if mode == INCOGNITO:
        return _(
            "Memory: incognito. Nothing is remembered, and the log is erased at the session's end."
        )
    text = _("Memory: {mode}, recall on.") if memory.recall else _("Memory: {mode}, recall off.")
    return text.format(mode=mode)


def parse_mode(name: str) -> MemoryMode:
    """Return the mode of that name. Raises InvalidRequest with the names that exist."""
    mode = MEMORY_MODES.get(name.lower())
    if mode is None:
        raise InvalidRequest(
            _(
                "There is no memory mode {name!r}; the modes are {memory_modes} (guest is another name "
                "of incognito). Nothing was changed."
            ).format(name=name[:20], memory_modes=", ".join(MEMORY_MODES))
        )
    return mode


def _open_work(text: Message, session: SessionRow, mode: MemoryMode) -> Message:
    return text.format(agent=session.agent_id, mode=mode, current=session.memory_mode)
