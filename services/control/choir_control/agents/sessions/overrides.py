"""Change of a running session's model or voice until it ends.

The override is stored in the session's row, so it survives crashes; the next session starts without it.
It raises the version of the session's settings, so that the agent fetches them again: after a signal, or
after its next heartbeat.
"""

from typing import Literal

import structlog

from choir_common.errors import Conflict
from choir_common.i18n import _
from choir_common.wire.operations import AgentModelAndVoice
from choir_common.wire.operator import StartAgent
from choir_common.wire.signals import ConfigChangedSignal
from choir_control.agents.sessions.bindings import choose_bindings, require_known_name
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.signal_sender import SignalSender
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.authentication import LeaseAuthenticator

log = structlog.get_logger("choir.sessions")

Changeable = Literal["llm", "voice_profile"]


class SessionOverrides:
    """Service that row the model and voice of running sessions."""

    def __init__(
        self,
        *,
        store: SessionStore,
        configuration: ConfigService,
        authenticator: LeaseAuthenticator,
        signal_sender: SignalSender,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._authenticator = authenticator
        self._signal_sender = signal_sender

    async def choices(self, agent_id: str) -> AgentModelAndVoice:
        """Return an agent's model and voice; raises NotFound."""
        self._configuration.current.agent(agent_id)
        return self._choices(agent_id, await self._store.find_live(agent_id))

    async def set_model(self, agent_id: str, llm: str) -> AgentModelAndVoice:
        """Change an agent's model. Raises NotFound, InvalidRequest, or Conflict if it does not run."""
        require_known_name("llm", llm, self._configuration.current.config.models)
        return await self._set(agent_id, "llm", llm)

    async def set_voice(self, agent_id: str, voice: str) -> AgentModelAndVoice:
        """Change an agent's voice. Raises NotFound, InvalidRequest, or Conflict if it does not run."""
        require_known_name(
            "voice profile", voice, self._configuration.current.config.voice_profiles
        )
        return await self._set(agent_id, "voice_profile", voice)

    async def _set(self, agent_id: str, field: Changeable, name: str) -> AgentModelAndVoice:
        self._configuration.current.agent(agent_id)
        session = await self._store.find_live(agent_id)
        row = await self._store.set_override(session.session_id, field, name) if session else None
        if session is None or row is None:
            flag = field.replace("_", "-")
            raise Conflict(
                _(
                    "{agent} is not running, or is about to stop. Start it with `choirctl agent start "
                    "{agent} --{flag} {name}`, or edit its defaults in config.json."
                ).format(agent=agent_id, flag=flag, name=name)
            )
        self._authenticator.forget(row.session_id)
        version = self._configuration.current.version_for(row.settings_rev)
        await self._signal_sender.send_replacing(row, ConfigChangedSignal(config_version=version))
        log.info("settings changed", agent=agent_id, session=row.session_id, version=version)
        return self._choices(agent_id, row)

    def _choices(self, agent_id: str, session: SessionRow | None) -> AgentModelAndVoice:
        snapshot = self._configuration.current
        start = (
            session.initial_bindings
            if session
            else choose_bindings(snapshot, agent_id, StartAgent())
        )
        now = snapshot.complete_bindings(agent_id, session.bindings if session else start)
        model = snapshot.config.models.get(now.llm)
        changes = [
            field
            for field, before, after in (
                ("llm", start.llm, now.llm),
                ("voice_profile", start.voice_profile, now.voice_profile),
            )
            if before != after
        ]
        return AgentModelAndVoice(
            agent_id=agent_id,
            session_id=session.session_id if session else None,
            llm=now.llm,
            model=model.model if model else None,
            core_llm=now.core_llm,
            voice_profile=now.voice_profile,
            changed=tuple(changes),
        )
