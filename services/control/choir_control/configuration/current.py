"""Hold the configuration in force, and cut from it what others may see.

Called by nearly every room of control; swapped whole, never patched (spec 16.3).
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import NotFound
from choir_common.wire.config import AgentConfig, AgentSettings, Config, ModelConfig
from choir_common.wire.messages import ChannelTable, DmBinding, GatewayBinding
from choir_common.wire.rpc import ResourceBindings
from choir_control.configuration.read import read_config
from choir_control.configuration.version_store import ConfigVersionStore


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

    def gateway_of(self, dm: str) -> str | None:
        """Return the gateway a DM is on, none for an unknown DM."""
        found = self.config.dms.get(dm)
        return found.gateway if found else None

    def default_agent_of(self, dm: str) -> str | None:
        """Return the agent whose default this DM is; the first by name if several."""
        owners = [name for name, a in self.config.agents.items() if a.defaults.dm == dm]
        return min(owners, default=None)

    def settings_for(self, model_name: str) -> AgentSettings:
        """Return what an agent bound to `model_name` needs; raises NotFound."""
        config = self.config
        if model_name not in config.models:
            raise NotFound(f"The model {model_name!r} is no longer in config.json.")
        return AgentSettings(
            model_name=model_name,
            model=config.models[model_name],
            budgets=config.budgets,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rate_limit_retry_ms=config.rate_limit_retry_ms,
            event_window=config.event_window,
        )

    def secret_names(self, agent_id: str, bindings: ResourceBindings) -> set[str]:
        """Return the names of the secrets a session's resources need (spec 14.2)."""
        config, named = self.config, set[str | None]()
        if bindings.llm in config.models:
            named.add(config.models[bindings.llm].secret)
        if agent_id in config.agents:
            chosen = config.agents[agent_id].defaults
            if chosen.git_identity:
                named.add(config.git_identities[chosen.git_identity].secret)
            if chosen.notion:
                named.add(config.notion_integrations[chosen.notion].secret)
            if chosen.email:
                named.add(config.email_accounts[chosen.email].secret)
            if chosen.voice_profile:
                named.add(config.tts[config.voice_profiles[chosen.voice_profile].tts].secret)
        return {name for name in named if name}

    def channels(self) -> ChannelTable:
        """Return all that the gateway service needs."""
        return ChannelTable(
            config_version=self.version,
            gateways=tuple(
                GatewayBinding(name=name, type=g.type, secret=g.secret, api_url=g.api_url)
                for name, g in self.config.gateways.items()
            ),
            dms=tuple(
                DmBinding(name=name, gateway=d.gateway, user_id=d.user_id, admin=d.admin)
                for name, d in self.config.dms.items()
            ),
        )


class Configuration:
    """The configuration in force; `load` swaps it for what the file says now."""

    def __init__(
        self, path: Path, default_model: ModelConfig | None, versions: ConfigVersionStore
    ) -> None:
        self._path = path
        self._default_model = default_model
        self._versions = versions
        self._current: Snapshot | None = None

    @property
    def current(self) -> Snapshot:
        """Return the snapshot in force; read it once per piece of work."""
        if self._current is None:
            raise NotFound("No configuration has been loaded yet.")
        return self._current

    def read(self) -> Config:
        """Read and check the file without taking it into force; raises BadInput."""
        return read_config(self._path, self._default_model)

    async def put_in_force(self, config: Config) -> Snapshot:
        """Give `config` its version and make it the current one."""
        digest = hashlib.sha256(config.model_dump_json().encode()).hexdigest()
        self._current = Snapshot(await self._versions.version_of(digest), config)
        return self._current
