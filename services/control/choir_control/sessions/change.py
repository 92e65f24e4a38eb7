"""Change of a running session's model or voice until it ends.

The override is stored in the session's row, so it survives crashes; the next session starts without it.
It raises the version of the session's settings, so that the agent fetches them again: after a signal, or
after its next heartbeat.
"""

from typing import Literal

import structlog

from choir_common.errors import Conflict
from choir_common.wire.choices import AgentChoices
from choir_common.wire.operator import StartAgent
from choir_common.wire.signals import ConfigChangedSignal
from choir_control.configuration.current import Configuration
from choir_control.leases.guard import LeaseGuard
from choir_control.sessions.choose import choose, require
from choir_control.sessions.record import SessionRow
from choir_control.sessions.store import SessionStore
from choir_control.sessions.tell import Messenger

log = structlog.get_logger("choir.sessions")

Changeable = Literal["llm", "voice_profile"]


class Changes:
    """Service that changes the model and voice of running sessions."""

    def __init__(
        self,
        store: SessionStore,
        configuration: Configuration,
        guard: LeaseGuard,
        messenger: Messenger,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._guard = guard
        self._messenger = messenger

    async def choices(self, agent_id: str) -> AgentChoices:
        """Return an agent's model and voice; raises NotFound."""
        self._configuration.current.agent(agent_id)
        return self._choices(agent_id, await self._store.live_of(agent_id))

    async def set_model(self, agent_id: str, llm: str) -> AgentChoices:
        """Change an agent's model. Raises NotFound, BadInput, or Conflict if it does not run."""
        require("llm", llm, self._configuration.current.config.models)
        return await self._set(agent_id, "llm", llm)

    async def set_voice(self, agent_id: str, voice: str) -> AgentChoices:
        """Change an agent's voice. Raises NotFound, BadInput, or Conflict if it does not run."""
        require("voice profile", voice, self._configuration.current.config.voice_profiles)
        return await self._set(agent_id, "voice_profile", voice)

    async def _set(self, agent_id: str, field: Changeable, name: str) -> AgentChoices:
        self._configuration.current.agent(agent_id)
        session = await self._store.live_of(agent_id)
        changed = await self._store.change(session.session_id, field, name) if session else None
        if session is None or changed is None:
            flag = field.replace("_", "-")
            raise Conflict(
                f"{agent_id} is not running, or is about to stop. Start it with `choirctl agent start "
                f"{agent_id} --{flag} {name}`, or edit its defaults in config.json."
            )
        self._guard.forget(changed.session_id)
        version = self._configuration.current.version_for(changed.settings_rev)
        await self._messenger.tell_newest(changed, ConfigChangedSignal(config_version=version))
        log.info("settings changed", agent=agent_id, session=changed.session_id, version=version)
        return self._choices(agent_id, changed)

    def _choices(self, agent_id: str, session: SessionRow | None) -> AgentChoices:
        snapshot = self._configuration.current
        start = session.started_with if session else choose(snapshot, agent_id, StartAgent())
        now = snapshot.bound(agent_id, session.bindings if session else start)
        model = snapshot.config.models.get(now.llm)
        changed = [
            field
            for field, before, after in (
                ("llm", start.llm, now.llm),
                ("voice_profile", start.voice_profile, now.voice_profile),
            )
            if before != after
        ]
        return AgentChoices(
            agent_id=agent_id,
            session_id=session.session_id if session else None,
            llm=now.llm,
            model=model.model if model else None,
            core_llm=now.core_llm,
            voice_profile=now.voice_profile,
            changed=tuple(changed),
        )
