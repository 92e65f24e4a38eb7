"""The configuration in force, and the views of it that sessions, memory and the gateway receive.

A new configuration replaces the old one as a whole; it is never patched.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _, translate
from choir_common.wire.agent_questions import is_question_dm
from choir_common.wire.config import (
    AgentConfig,
    AgentConversation,
    AgentSettings,
    Config,
    FileLimits,
    MemoryServiceConfig,
    ModelConfig,
    TranscriptionBinding,
    VoiceBinding,
    WorkspaceLimits,
)
from choir_common.wire.config_parts import Budgets
from choir_common.wire.harness_config import harnesses_of
from choir_common.wire.memory_config import ReminderConfig, RetentionConfig
from choir_common.wire.messages import (
    ChannelTable,
    DmBinding,
    GatewayBinding,
    WebhookBinding,
    WhatsAppBinding,
)
from choir_common.wire.policy import AgentPolicy, Role
from choir_common.wire.rpc import ResourceBindings
from choir_common.wire.skill_config import approved_hashes
from choir_control.configuration.agent_questions import add_question_dms, may_ask
from choir_control.configuration.api_clients import ApiClient, add_clients, find_tool_dms
from choir_control.configuration.entries import fallback_models, find_entry
from choir_control.configuration.host_timezone import read_host_timezone
from choir_control.configuration.pairing import PairedUser, add_paired
from choir_control.configuration.parsing import (
    complete_config,
    parse_config_file,
    parse_config_text,
)
from choir_control.configuration.people import Identity, PersonRegistry, UserLanguage
from choir_control.configuration.servers import known_hosts
from choir_control.configuration.version_store import ConfigVersionStore, Reason

NO_MODEL = _("The model {llm!r} is no longer in config.json.")


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """One version of the configuration."""

    version: int
    config: Config
    """config.json with the deployment's additions and the conversations of paired users and of clients."""
    linked: Mapping[Identity, str] = field(default_factory=dict)
    """The people of linked identities."""
    paired: Mapping[str, PairedUser] = field(default_factory=dict)
    """Paired users whose conversations are in `config`, by its name."""
    client_dms: Mapping[str, str] = field(default_factory=dict)
    """The client of each conversation of the OpenAI-compatible API, by its name."""
    tool_dms: frozenset[str] = frozenset()
    """Those of clients that may offer tools of their own."""
    languages: Mapping[str, UserLanguage] = field(default_factory=dict)
    """The languages of people, and of conversations that are nobody's."""

    @property
    def people(self) -> PersonRegistry:
        """Return who the users of conversations are."""
        return PersonRegistry(self.config, self.linked, self.paired, self.languages)

    def agent(self, agent_id: str) -> AgentConfig:
        """Return an agent's configuration; raises NotFound."""
        if agent_id not in self.config.agents:
            names = ", ".join(sorted(self.config.agents)) or _("none")
            raise NotFound(
                _("There is no agent {agent!r} in config.json (it has {names}).").format(
                    agent=agent_id, names=names
                )
            )
        return self.config.agents[agent_id]

    def version_for(self, settings_rev: int) -> int:
        """Return the version of a session's settings: configuration version plus settings revision.

        Neither decreases while a session lasts, so their sum grows with each and identifies one state.
        """
        return self.version + settings_rev

    def gateway_of(self, dm: str) -> str | None:
        """Return the gateway of a conversation (DM), or None for an unknown one."""
        dm_config = self.config.dms.get(dm)
        return dm_config.gateway if dm_config else None

    def default_agent_for(self, dm: str, held_last: str | None = None) -> str | None:
        """Return the agent to which a conversation (DM) belongs by default.

        If it is the default of several agents, return the one that was bound to it last, or else
        the first by name.
        """
        agents = self.config.agents.items()
        owners = [name for name, a in agents if a.defaults.dm == dm]
        owners = owners or [name for name, a in agents if dm in a.conversations]
        return held_last if held_last in owners else min(owners, default=None)

    def complete_bindings(self, agent_id: str, bindings: ResourceBindings) -> ResourceBindings:
        """Return a session's bindings, completed with the agent's current defaults for shared resources.

        The core model, the search provider and the transcription model are shared and no start command
        selects them, so a change of these defaults takes effect at once.
        """
        if agent_id not in self.config.agents:
            return bindings
        defaults = self.config.agents[agent_id].defaults
        return bindings.model_copy(
            update={
                "core_llm": defaults.core_llm,
                "search": defaults.search or min(self.config.search, default=None),
                "transcription": defaults.transcription
                or min(self.config.transcription, default=None),
            }
        )

    def settings_for(
        self, agent_id: str, bindings: ResourceBindings, dms: Sequence[str] = ()
    ) -> AgentSettings:
        """Return a session's settings for `dms`, home first; raises NotFound if its model was removed."""
        config, session_bindings = self.config, self.complete_bindings(agent_id, bindings)
        if session_bindings.llm not in config.models:
            raise NotFound(NO_MODEL.format(llm=session_bindings.llm))
        return AgentSettings(
            model_name=session_bindings.llm,
            model=config.models[session_bindings.llm],
            core_model_name=session_bindings.core_llm,
            core_model=find_entry(config.models, session_bindings.core_llm),
            vision_model_name=self._vision_model_name(agent_id),
            vision_model=find_entry(config.models, self._vision_model_name(agent_id)),
            wake_up_model_name=self._wake_up_model_name(agent_id),
            wake_up_model=find_entry(config.models, self._wake_up_model_name(agent_id)),
            fallback_models=self._fallback_models(agent_id, session_bindings),
            budgets=self.budgets_for(agent_id),
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rate_limit_retry_ms=config.rate_limit_retry_ms,
            event_window=config.event_window,
            compaction_threshold=config.compaction_threshold,
            summary_timeout_ms=config.summary_timeout_ms,
            voice=self._voice(session_bindings.voice_profile),
            voice_replies=self._has_voice_replies(agent_id),
            transcription=self._transcription(session_bindings.transcription),
            git_identity=find_entry(config.git_identities, session_bindings.git_identity),
            notion=find_entry(config.notion_integrations, session_bindings.notion),
            email=find_entry(config.email_accounts, session_bindings.email),
            search=find_entry(config.search, session_bindings.search),
            mcp=config.mcp.servers_of(agent_id),
            harnesses=harnesses_of(config.harnesses, agent_id),
            skills=approved_hashes(config.skills, agent_id),
            limits=config.limits,
            workspace_limits=self.workspace_limits(session_bindings.workspace),
            reminder_tokens=config.memory.reminder_tokens,
            reminders=self.reminders_for(agent_id),
            timezone=self.timezone_for(agent_id, session_bindings.dm),
            streaming=self.is_streaming(agent_id),
            features=config.features,
            policy=self._policy(agent_id, session_bindings.dm),
            has_repository=self.has_repository(agent_id),
            conversations=self._conversations(dms),
            may_ask=may_ask(config, agent_id),
            has_client_tools=not self.tool_dms.isdisjoint(dms),
        )

    def _fallback_models(self, agent_id: str, bindings: ResourceBindings) -> dict[str, ModelConfig]:
        names = (self._vision_model_name(agent_id), self._wake_up_model_name(agent_id))
        return fallback_models(self.config, bindings.llm, bindings.core_llm, *names)

    def _policy(self, agent_id: str, dm: str) -> AgentPolicy:
        role, hosts = self.role_for(agent_id, dm), known_hosts(self.config)
        return AgentPolicy(
            agent_id=agent_id, role=role, rules=self.config.policy, known_hosts=hosts
        )

    def _conversations(self, dms: Sequence[str]) -> tuple[AgentConversation, ...]:
        """Return the conversations that an agent may choose from; one that has only one chooses none."""
        of_users = [dm for dm in dms if not is_question_dm(dm)]  # nobody reads the other ones
        shared = of_users if len(of_users) > 1 else ()
        return tuple(
            AgentConversation(name=dm, person=self.people.person_in(dm) or "") for dm in shared
        )

    def workspace_limits(self, workspace: str) -> WorkspaceLimits:
        """Return the limits on the size of a workspace."""
        entry = self.config.workspaces.get(workspace)
        return entry.limits if entry else WorkspaceLimits()

    def has_repository(self, agent_id: str) -> bool:
        """Return True if the agent has its own repository, which its proposals require."""
        own = self.config.agents.get(agent_id)
        return own is not None and bool(own.repo.url)

    def reminders_for(self, agent_id: str) -> ReminderConfig:
        """Return which memories an agent's reminders may contain."""
        own = self.config.agents.get(agent_id)
        return own.reminders if own else ReminderConfig()

    def timezone_for(self, agent_id: str, dm: str) -> str:
        """Return a user's time zone: the user's own, the agent's, or else the host's."""
        user, own = self.config.dms.get(dm), self.config.agents.get(agent_id)
        person = self.config.people.get(self.people.person_in(dm) or "")
        return (
            (user.timezone if user else None)
            or (person.timezone if person else None)
            or (own.timezone if own else None)
            or read_host_timezone()
        )

    def role_in(self, dm: str) -> Role:
        """Return the role of a conversation's user."""
        return "admin" if self.people.is_admin(dm) else "user"

    def role_for(self, agent_id: str, home_dm: str) -> Role:
        """Return the role in which an agent works: `admin` if all of its conversations are admins'."""
        own = self.config.agents.get(agent_id)
        dms = (home_dm, *(own.conversations if own else ()))
        return "admin" if all(self.role_in(dm) == "admin" for dm in dms) else "user"

    def is_streaming(self, agent_id: str) -> bool:
        """Return True if an agent's replies are shown while the model writes them."""
        own = self.config.agents.get(agent_id)
        return own is None or own.streaming

    def budgets_for(self, agent_id: str) -> Budgets:
        """Return an agent's budgets: its own values over the general ones."""
        own = self.config.agents.get(agent_id)
        return self.config.budgets.with_overrides(own.budgets) if own else self.config.budgets

    def _vision_model_name(self, agent_id: str) -> str | None:
        own = self.config.agents.get(agent_id)
        return own.defaults.vision_llm if own else None

    def _wake_up_model_name(self, agent_id: str) -> str | None:
        own = self.config.agents.get(agent_id)
        return own.wake_ups.model if own and own.wake_ups else None

    def _voice(self, name: str | None) -> VoiceBinding | None:
        profile = find_entry(self.config.voice_profiles, name)
        if profile is None:
            return None
        return VoiceBinding(profile=profile, tts=self.config.tts[profile.tts])

    def _has_voice_replies(self, agent_id: str) -> bool:
        own = self.config.agents.get(agent_id)
        return own is None or own.voice_replies

    def _transcription(self, name: str | None) -> TranscriptionBinding | None:
        config = find_entry(self.config.transcription, name)
        if name is None or config is None:
            return None
        return TranscriptionBinding(name=name, config=config)

    def secret_names(self, agent_id: str, bindings: ResourceBindings) -> frozenset[str]:
        """Return the names of the secrets that a session's resources need."""
        try:
            return self.settings_for(agent_id, bindings).secret_names()
        except NotFound:
            return frozenset()

    def memory_orders(self) -> MemoryServiceConfig:
        """Return the parts of the configuration that memory's maintenance uses."""
        config = self.config
        retention = {name: agent.retention for name, agent in config.agents.items()}
        return MemoryServiceConfig(
            model=find_entry(config.models, config.memory.model),
            fallback_models=fallback_models(config, config.memory.model),
            retention={
                name: policy for name, policy in retention.items() if policy != RetentionConfig()
            },
        )

    def channels(self) -> ChannelTable:
        """Return the gateways and conversations (DMs) for the gateway service."""
        people = self.people
        mailboxes = {it.mail.gateway for it in self.config.triggers.values() if it.mail}
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
                    acknowledgement=g.acknowledgement,
                    app_secret=g.app_secret,
                    email=g.email,
                    whatsapp=WhatsAppBinding(**g.whatsapp.model_dump()) if g.whatsapp else None,
                    signal=g.signal,
                    pairing=g.pairing is not None,
                    starts_work=name in mailboxes,
                )
                for name, g in self.config.gateways.items()
            ),
            dms=tuple(
                DmBinding(
                    name=name,
                    gateway=d.gateway,
                    user_id=d.user_id or "",
                    admin=people.is_admin(name),
                    chat_id=d.chat_id or "",
                    topic=d.topic or "",
                    answers=d.answers,
                    language=people.language_in(name),
                )
                for name, d in self.config.dms.items()
            ),
        )


@dataclass(frozen=True, slots=True)
class ConfigCandidate:
    """A complete and valid configuration that may not be in force."""

    file_config: Config
    """The content of the file."""
    config: Config
    """The content of the file with the deployment's additions."""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the configuration, which identifies it."""
        return hashlib.sha256(self.config.model_dump_json().encode()).hexdigest()

    @property
    def body(self) -> str:
        """Return the JSON text stored in `config_versions`."""
        return self.file_config.model_dump_json()


class ConfigService:
    """The configuration in force; `staging` replaces it as a whole."""

    def __init__(
        self, path: Path, default_model: ModelConfig | None, versions: ConfigVersionStore
    ) -> None:
        self.path = path
        self._default_model = default_model
        self._versions = versions
        self._lock = asyncio.Lock()
        self._current: ConfigSnapshot | None = None
        self._candidate: ConfigCandidate | None = None
        self._linked: Mapping[Identity, str] = {}
        self._paired: tuple[PairedUser, ...] = ()
        self._clients: tuple[ApiClient, ...] = ()
        self._languages: Mapping[str, UserLanguage] = {}
        self.note = ""
        """Why the configuration in force is not the one in the file; empty if it was read from the file."""

    @property
    def current(self) -> ConfigSnapshot:
        """Return the snapshot in force. Read it once per task, because it may be replaced at any await."""
        if self._current is None:
            raise NotFound(_("No configuration has been loaded yet."))
        return self._current

    @property
    def declared(self) -> Config:
        """Return the configuration in force without the conversations of paired users and of clients."""
        if self._candidate is None:
            raise NotFound(_("No configuration has been loaded yet."))
        return self._candidate.config

    def root_of(self, workspace: str) -> Path:
        """Return the directory of a workspace; raises NotFound."""
        entry = self.current.config.workspaces.get(workspace)
        if entry is None:
            raise NotFound(
                _("There is no workspace {workspace!r} in config.json.").format(workspace=workspace)
            )
        return Path(entry.path)

    def workspace_path(self, workspace: str) -> Path | None:
        """Return the directory of a workspace, or None if it is not configured."""
        entry = self.current.config.workspaces.get(workspace)
        return Path(entry.path).expanduser() if entry else None

    @property
    def file_limits(self) -> FileLimits:
        """Return the limits of files that are sent and received."""
        return self.current.config.limits

    def read(self) -> ConfigCandidate:
        """Read and check the file without applying it; raises InvalidRequest. Blocking."""
        file_config = parse_config_file(self.path)
        return self._complete(file_config, str(self.path))

    def check_text(self, text: bytes) -> ConfigCandidate:
        """Check a text that is to replace the file; raises InvalidRequest. Takes some milliseconds."""
        return self._complete(parse_config_text(text, str(self.path)), str(self.path))

    async def load_last_valid(self, why: str) -> ConfigCandidate | None:
        """Return the configuration that was in force last; None if none is stored or it is not valid.

        Used at startup when the file is not valid; `why` becomes `note`.
        """
        body = await self._versions.last_body()
        try:
            candidate = body and self._complete(
                Config.model_validate_json(body), "the last good one"
            )
        except (ValidationError, InvalidRequest):
            return None
        self.note = why if candidate else ""
        return candidate or None

    async def put_in_force(
        self, candidate: ConfigCandidate, reason: Reason = "start"
    ) -> ConfigSnapshot:
        """Store `candidate` under a version number and make it the current configuration.

        The stored row is the commit. Raises Unavailable without a database; the old configuration
        then stays in force.
        """
        async with self._lock:
            version = await self._versions.store_version(candidate.digest, candidate.body, reason)
            return self._swap(version, candidate, reason)

    async def renumber(self, reason: Reason = "secrets") -> int:
        """Give the current configuration a new version: secrets, paired users or clients have changed."""
        async with self._lock:
            candidate = self._candidate
            if candidate is None:
                raise NotFound(_("No configuration has been loaded yet."))
            version = await self._versions.store_new_version(
                candidate.digest, candidate.body, reason
            )
            return self._swap(version, candidate, reason).version

    def set_linked(self, linked: Mapping[Identity, str]) -> None:
        """Replace the people of linked identities."""
        self._linked = dict(linked)
        self._refresh()

    def set_paired(self, users: Iterable[PairedUser]) -> None:
        """Replace the paired users."""
        self._paired = tuple(users)
        self._refresh()

    def set_clients(self, clients: Iterable[ApiClient]) -> None:
        """Replace the clients of the OpenAI-compatible API."""
        self._clients = tuple(clients)
        self._refresh()

    def set_languages(self, languages: Mapping[str, UserLanguage]) -> None:
        """Replace the languages of people and conversations."""
        self._languages = dict(languages)
        self._refresh()

    def translate(self, dm: str, text: str) -> str:
        """Return a message in the language of a conversation; a text that is none stays as it is."""
        return translate(text, self.current.people.language_in(dm))

    def _refresh(self) -> None:
        if self._current is not None:
            self._current = self._snapshot(self._current.version, self.declared)

    def _snapshot(self, version: int, declared: Config) -> ConfigSnapshot:
        """Return a configuration with what the database adds to it."""
        config, paired = add_paired(add_question_dms(declared), self._paired)
        config, client_dms, client_people = add_clients(config, self._clients)
        return ConfigSnapshot(
            version,
            config,
            {**self._linked, **client_people},
            paired,
            client_dms,
            find_tool_dms(client_dms, self._clients),
            self._languages,
        )

    def _swap(self, version: int, candidate: ConfigCandidate, reason: Reason) -> ConfigSnapshot:
        snapshot = self._snapshot(version, candidate.config)
        self._current, self._candidate = snapshot, candidate
        if reason == "config":
            self.note = ""
        return snapshot

    def _complete(self, file_config: Config, source: str) -> ConfigCandidate:
        return ConfigCandidate(
            file_config, complete_config(file_config, self._default_model, source)
        )
