"""Hold the configuration in force, and cut from it what others may see.

Called by nearly every room of control; swapped whole, never patched (spec 16.3).
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from choir_common.errors import BadInput, NotFound
from choir_common.wire.budgets import Budgets
from choir_common.wire.config import (
    AgentConfig,
    AgentSettings,
    Config,
    ModelConfig,
    RetentionConfig,
    VoiceBinding,
)
from choir_common.wire.memory_orders import MemoryOrders
from choir_common.wire.messages import (
    ChannelTable,
    DmBinding,
    GatewayBinding,
    WebhookBinding,
)
from choir_common.wire.rpc import ResourceBindings
from choir_control.configuration.host_zone import host_timezone
from choir_control.configuration.read import complete, read_written
from choir_control.configuration.version_store import ConfigVersionStore, Reason

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of the configuration."""

    version: int
    config: Config

    def agent(self, agent_id: str) -> AgentConfig:
        """Return an agent's definition; raises NotFound."""
        if agent_id not in self.config.agents:
            names = ", ".join(sorted(self.config.agents)) or "none"
            raise NotFound(f"There is no agent {agent_id!r} in config.json (it has {names}).")
        return self.config.agents[agent_id]

    def version_for(self, settings_rev: int) -> int:
        """Return the version of a session's settings: of the configuration, and of its own changes.

        Both only grow while a session lasts, so their sum grows with either and names one state.
        """
        return self.version + settings_rev

    def gateway_of(self, dm: str) -> str | None:
        """Return the gateway a DM is on, none for an unknown DM."""
        found = self.config.dms.get(dm)
        return found.gateway if found else None

    def default_agent_of(self, dm: str, held_last: str | None = None) -> str | None:
        """Return the agent whose default this DM is: of several the one that held it last, else the first."""
        owners = [name for name, a in self.config.agents.items() if a.defaults.dm == dm]
        return held_last if held_last in owners else min(owners, default=None)

    def bound(self, agent_id: str, bindings: ResourceBindings) -> ResourceBindings:
        """Return what a session is bound to, with what its agent's defaults say at any time.

        Those are shared, and no start names them, so a change of them is in force at once.
        """
        if agent_id not in self.config.agents:
            return bindings
        chosen = self.config.agents[agent_id].defaults
        return bindings.model_copy(
            update={
                "core_llm": chosen.core_llm,
                "search": chosen.search or min(self.config.search, default=None),
            }
        )

    def settings_for(self, agent_id: str, bindings: ResourceBindings) -> AgentSettings:
        """Return what a session of an agent needs; raises NotFound when its model is gone."""
        config, bound = self.config, self.bound(agent_id, bindings)
        if bound.llm not in config.models:
            raise NotFound(f"The model {bound.llm!r} is no longer in config.json.")
        return AgentSettings(
            model_name=bound.llm,
            model=config.models[bound.llm],
            core_model_name=bound.core_llm,
            core_model=_named(config.models, bound.core_llm),
            budgets=self.budgets_of(agent_id),
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rate_limit_retry_ms=config.rate_limit_retry_ms,
            event_window=config.event_window,
            compaction_threshold=config.compaction_threshold,
            summary_timeout_ms=config.summary_timeout_ms,
            voice=self._voice(bound.voice_profile),
            git_identity=_named(config.git_identities, bound.git_identity),
            notion=_named(config.notion_integrations, bound.notion),
            email=_named(config.email_accounts, bound.email),
            search=_named(config.search, bound.search),
            limits=config.limits,
            reminder_tokens=config.memory.reminder_tokens,
            timezone=self.timezone_of(agent_id),
            features=config.features,
            has_repository=self.has_repository(agent_id),
        )

    def has_repository(self, agent_id: str) -> bool:
        """Tell whether an agent has a repository of its own, which its proposals need."""
        own = self.config.agents.get(agent_id)
        return own is not None and bool(own.repo.url)

    def timezone_of(self, agent_id: str) -> str:
        """Return the time zone of an agent's user: the configured one, else the host's."""
        own = self.config.agents.get(agent_id)
        return (own.timezone if own else None) or host_timezone()

    def budgets_of(self, agent_id: str) -> Budgets:
        """Return the budgets in force for an agent: its own, else those of all."""
        own = self.config.agents.get(agent_id)
        return self.config.budgets.overridden(own.budgets) if own else self.config.budgets

    def _voice(self, name: str | None) -> VoiceBinding | None:
        profile = _named(self.config.voice_profiles, name)
        if profile is None:
            return None
        return VoiceBinding(profile=profile, tts=self.config.tts[profile.tts])

    def secret_names(self, agent_id: str, bindings: ResourceBindings) -> frozenset[str]:
        """Return the names of the secrets a session's resources need (spec 14.2)."""
        try:
            return self.settings_for(agent_id, bindings).secret_names()
        except NotFound:
            return frozenset()

    def memory_orders(self) -> MemoryOrders:
        """Return what the memory service's rounds go by."""
        config = self.config
        kept = {name: agent.retention for name, agent in config.agents.items()}
        return MemoryOrders(
            model=_named(config.models, config.memory.model),
            retention={name: one for name, one in kept.items() if one != RetentionConfig()},
        )

    def channels(self) -> ChannelTable:
        """Return all that the gateway service needs."""
        return ChannelTable(
            config_version=self.version,
            gateways=tuple(
                GatewayBinding(
                    name=name,
                    type=g.type,
                    secret=g.secret,
                    api_url=g.api_url,
                    webhook=WebhookBinding(url=g.webhook.url, secret=g.webhook.secret)
                    if g.webhook
                    else None,
                )
                for name, g in self.config.gateways.items()
            ),
            dms=tuple(
                DmBinding(name=name, gateway=d.gateway, user_id=d.user_id, admin=d.admin)
                for name, d in self.config.dms.items()
            ),
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that is whole and valid, in force or not."""

    written: Config
    """As the file says it."""
    config: Config
    """With what the deployment adds."""

    @property
    def digest(self) -> str:
        """Return what names it."""
        return hashlib.sha256(self.config.model_dump_json().encode()).hexdigest()

    @property
    def body(self) -> str:
        """Return what is kept of it."""
        return self.written.model_dump_json()


class Configuration:
    """The configuration in force; `staging` swaps it for another, whole."""

    def __init__(
        self, path: Path, default_model: ModelConfig | None, versions: ConfigVersionStore
    ) -> None:
        self.path = path
        self._default_model = default_model
        self._versions = versions
        self._turn = asyncio.Lock()
        self._current: Snapshot | None = None
        self._candidate: Candidate | None = None
        self.note = ""
        """Why what is in force is not what the file says; empty when it was read from the file."""

    @property
    def current(self) -> Snapshot:
        """Return the snapshot in force; read it once per piece of work."""
        if self._current is None:
            raise NotFound("No configuration has been loaded yet.")
        return self._current

    def root_of(self, workspace: str) -> Path:
        """Return where a workspace is; raises NotFound."""
        found = self.current.config.workspaces.get(workspace)
        if found is None:
            raise NotFound(f"There is no workspace {workspace!r} in config.json.")
        return Path(found.path)

    def read(self) -> Candidate:
        """Read and check the file without taking it into force; raises BadInput. Blocking."""
        written = read_written(self.path)
        return self._complete(written, str(self.path))

    async def last_good(self, why: str) -> Candidate | None:
        """Return what was last in force, to start with where the file does not fit; none if none is kept."""
        body = await self._versions.last_body()
        try:
            found = body and self._complete(Config.model_validate_json(body), "the last good one")
        except (ValidationError, BadInput):
            return None
        self.note = why if found else ""
        return found or None

    async def put_in_force(self, candidate: Candidate, reason: Reason = "start") -> Snapshot:
        """Give `candidate` its version, which is the commit, and make it the current one.

        Raises Unavailable without a database: the old one stays in force.
        """
        async with self._turn:
            version = await self._versions.version_of(candidate.digest, candidate.body, reason)
            return self._swap(Snapshot(version, candidate.config), candidate, reason)

    async def renumber(self) -> int:
        """Give what is in force a new version, because the secrets it names have changed."""
        async with self._turn:
            candidate = self._candidate
            if candidate is None:
                raise NotFound("No configuration has been loaded yet.")
            version = await self._versions.next_version(candidate.digest, candidate.body, "secrets")
            return self._swap(Snapshot(version, candidate.config), candidate, "secrets").version

    def _swap(self, snapshot: Snapshot, candidate: Candidate, reason: Reason) -> Snapshot:
        self._current, self._candidate = snapshot, candidate
        if reason == "config":
            self.note = ""
        return snapshot

    def _complete(self, written: Config, source: str) -> Candidate:
        return Candidate(written, complete(written, self._default_model, source))


def _named(section: Mapping[str, T], name: str | None) -> T | None:
    """Return what is named, none too if it has left the configuration since a session was bound."""
    return None if name is None else section.get(name)
