"""The models of `config.json` and the settings that an agent gets from it.

Read by control (configuration) and `choirctl init`. They contain names of secrets, never values.
"""

from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import BeforeValidator, Field

from choir_common.wire.backup_config import BackupConfig
from choir_common.wire.channel_config import DmConfig as DmConfig
from choir_common.wire.channel_config import GatewayConfig as GatewayConfig
from choir_common.wire.config_parts import (
    AgentBudgets,
    FeatureFlags,
    MemoryPromptsConfig,
    TimeZone,
)
from choir_common.wire.config_parts import Budgets as Budgets
from choir_common.wire.config_parts import MailSecurity as MailSecurity
from choir_common.wire.harness_config import HarnessConfig as HarnessConfig
from choir_common.wire.harness_config import HarnessName
from choir_common.wire.mcp_config import McpConfig as McpConfig
from choir_common.wire.mcp_config import McpServerConfig as McpServerConfig
from choir_common.wire.memory_config import (
    MemoryBetweenPeople,
    ReminderConfig,
    RetentionConfig,
)
from choir_common.wire.model import AgentName, Name, WireModel
from choir_common.wire.model_config import ModelConfig as ModelConfig
from choir_common.wire.money import EmbeddingPrices
from choir_common.wire.people_config import AgentConversation as AgentConversation
from choir_common.wire.people_config import PersonConfig as PersonConfig
from choir_common.wire.policy import DEFAULT_KNOWN_HOSTS, AgentPolicy, Pattern, PolicyRule
from choir_common.wire.skill_config import FolderHash, SkillFolderConfig, SkillFolderName
from choir_common.wire.speech_config import TranscriptionBinding as TranscriptionBinding
from choir_common.wire.speech_config import TranscriptionConfig as TranscriptionConfig
from choir_common.wire.speech_config import TtsConfig as TtsConfig
from choir_common.wire.speech_config import VoiceBinding as VoiceBinding
from choir_common.wire.speech_config import VoiceProfileConfig as VoiceProfileConfig
from choir_common.wire.speech_config import VoiceSettings as VoiceSettings
from choir_common.wire.trigger_config import HookConfig, TriggerConfig, WakeUpConfig

OptionalName = Annotated[Name | None, BeforeValidator(lambda value: None if value == "" else value)]
"""A name or None; an empty string counts as None."""


class RepoConfig(WireModel):
    """A git repository and the ref to follow."""

    url: str = ""
    """Clone URL; empty if there is no repository yet."""
    ref: str = "main"
    """The branch, tag or commit to follow."""
    git_identity: Name | None = None
    """Git identity with the credential, used at its `hosts` only. An agent's repository uses the agent's own
    identity by default."""


class WorkspaceLimits(WireModel):
    """Limits on what a workspace may contain; over a limit its agent can delete files, but not write any."""

    mb: int | None = Field(default=20_000, ge=1)
    """Megabytes on disk; null: no limit."""
    files: int | None = Field(default=500_000, ge=1)
    """Number of files and directories; null: no limit."""


class WorkspaceConfig(WireModel):
    """A directory on the host that one agent at a time may lease."""

    path: str
    """Absolute, or starting with `~`; created if missing."""
    limits: WorkspaceLimits = WorkspaceLimits()
    """Limits on its size."""


class GitIdentityConfig(WireModel):
    """An agent's identity in git; exclusive to one agent at a time."""

    name: str
    """Author name in commits."""
    email: str
    """Author address in commits."""
    secret: Name
    """The name of the secret with a token for HTTPS, or a private key for SSH."""
    hosts: tuple[str, ...] = ("github.com",)
    """The only hosts that get the credential."""
    username: str = "x-access-token"
    """User name for HTTPS remotes, sent with the token."""


class NotionConfig(WireModel):
    """A Notion integration; exclusive to one agent at a time."""

    secret: Name
    """The name of the secret with the integration's token."""
    endpoint: str = "https://api.notion.com"
    """Base URL of the API."""


class EmailConfig(WireModel):
    """A mail account over SMTP and IMAP."""

    smtp_host: str
    """Server for outgoing mail."""
    smtp_port: int = Field(ge=1, le=65535)
    """Usually 465 or 587."""
    imap_host: str
    """Server for incoming mail."""
    imap_port: int = Field(ge=1, le=65535)
    """Usually 993."""
    sharing: Literal["exclusive", "shared"]
    """Whether one agent at a time may use it, or any number."""
    secret: Name
    """The name of the secret with `user:password`."""
    address: str | None = None
    """The sender's address; default: the user name."""
    smtp_security: MailSecurity | None = None
    """Default by port: 465 is tls, any other starttls. `none` is for a server on this host."""
    imap_security: MailSecurity | None = None
    """Default by port: 993 is tls, any other starttls."""


class SearchConfig(WireModel):
    """The Brave Search API."""

    secret: Name
    """The name of the secret with the key."""
    endpoint: str = "https://api.search.brave.com/res/v1"
    """Base URL of the API."""


class EmbeddingConfig(WireModel):
    """An embedding model; without this section memory uses its built-in offline model."""

    provider: str = "openai"
    """For display only; every provider is called through the OpenAI API."""
    model: str
    """The provider's name of the model."""
    dimensions: int = Field(ge=1, le=4_000)
    """Length of its vectors; after a change memory embeds its documents again."""
    endpoint: str = Field(pattern=r"^https?://\S+$")
    """Base URL, up to `/v1`."""
    secret: Name | None = None
    """The name of the secret with the key."""
    prices: EmbeddingPrices | None = None
    """Its prices; null: those of Choir's price table, if it lists the model."""


class MemoryConfig(WireModel):
    """How sessions become long-term memory, and the resources memory may use."""

    model: OptionalName = None
    """A name in `models`, for summaries of past periods and fact extraction; none: excerpts and no facts."""
    mid_term_sessions: int = Field(default=10, ge=0, le=100_000)
    """An agent's newest sessions in mid-term memory; older ones are also found by their summary."""
    reminder_tokens: int = Field(default=800, ge=0, le=20_000)
    """Tokens of memories added to each user message without a request; 0: none, the agent searches itself."""
    query_expansion: bool = False
    """Let `model` add related words to each search that an agent makes itself: one call, at most 2 s."""


class RecordRetention(WireModel):
    """Days to keep control's finished records; null: no limit."""

    messages: int | None = Field(default=90, ge=1)
    """Inbound and outbound messages, after they are answered and delivered, and the ended runs of schedules.
    Log and memory contain the text of messages, too."""
    operations: int | None = Field(default=90, ge=1)
    """Finished operations, such as updates."""
    approvals: int | None = Field(default=365, ge=1)
    """Decided approvals of ended sessions; afterwards `approval rollback` cannot revert them."""
    config_versions: int | None = Field(default=365, ge=1)
    """Earlier versions of config.json; the newest 20 always stay."""
    sessions: int | None = Field(default=365, ge=1)
    """Ended sessions and their hashes, counted from the erasure of the log; an agent's newest one always
    stays."""
    ledger: int | None = Field(default=400, ge=62)
    """The cost of each single call. Afterwards the ledger has sums of a day by agent and model, without
    sessions and jobs; the sums stay."""
    deleted_agents: int | None = Field(default=None, ge=1)
    """Logs of ended sessions of agents that are no longer in config.json."""


class PostgresConfig(WireModel):
    """Address of a Postgres server with pgvector; without this section the deployment's own is used."""

    host: str
    """Host name or address, or the directory of its Unix socket."""
    port: int = Field(default=5432, ge=1, le=65535)
    """Default: Postgres' own port."""
    database: str = "choir"
    """The database; it must exist."""
    user: str = "choir"
    """Login role. It creates schemas and roles, so it needs CREATEROLE and rights to the database."""
    secret: Name
    """The name of the secret with the password."""

    @property
    def dsn(self) -> str:
        """Return the connection URL without the password."""
        user, database = quote(self.user, safe=""), quote(self.database, safe="")
        if self.host.startswith("/"):
            return f"postgresql://{user}@/{database}?host={quote(self.host)}&port={self.port}"
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        return f"postgresql://{user}@{host}:{self.port}/{database}"


class AgentDefaults(WireModel):
    """An agent's resources, unless the start request names others."""

    workspace: Name
    """A name in `workspaces`; leased by one agent at a time."""
    llm: Name
    """A name in `models`: the model of the edge lane."""
    dm: Name
    """A name in `dms`: the agent's conversation; leased by one agent at a time."""
    core_llm: Name | None = None
    """The model of core jobs; default: `llm`. Use a fast model for the edge and a strong one here."""
    vision_llm: OptionalName = None
    """A name in `models`: it describes pictures to a model that cannot see them."""
    search: Name | None = None
    """A name in `search`; default: the first by name."""
    voice_profile: OptionalName = None
    """A name in `voice_profiles`; without one the agent cannot speak."""
    transcription: OptionalName = None
    """A name in `transcription`; default: the first by name."""
    git_identity: OptionalName = None
    """A name in `git_identities`; leased by one agent at a time."""
    notion: OptionalName = None
    """A name in `notion_integrations`; leased by one agent at a time."""
    email: OptionalName = None
    """A name in `email_accounts`."""


class IdleEndConfig(WireModel):
    """When an idle session ends; the agent then continues in a new one."""

    after_ms: int = Field(default=1_200_000, ge=1_000)
    """Time without events, waiting messages, open jobs and pending approvals: 20 minutes by default."""


class AgentConfig(WireModel):
    """An agent's definition."""

    defaults: AgentDefaults
    """The resources it starts with."""
    conversations: tuple[Name, ...] = ()
    """Further conversations of the agent: names in `dms`, besides `defaults.dm`. See
    docs/conversations.md."""
    may_ask: tuple[AgentName, ...] = ()
    """The other agents that it may ask, in a conversation of its own with each. See docs/agents.md."""
    asks_per_hour: int = Field(default=30, ge=1, le=1_000)
    """How many questions it may ask other agents in an hour."""
    repo: RepoConfig = RepoConfig()
    """Its own tools, skills and identity."""
    autostart: bool = False
    """Start the agent with control; `choirctl init` sets it for the first agent."""
    restart: Literal["on-crash", "never"] = "on-crash"
    """Whether a crashed session is resumed."""
    recall: bool = True
    """Whether memories are shown to it: reminders, hints and its searches. `/recall` overrides it for a
    conversation."""
    streaming: bool = True
    """Show replies while the model writes them, and let a new message interrupt one."""
    timezone: TimeZone | None = None
    """Its users' time zone (IANA name) for times in prompts; default: the host's. `dms.NAME.timezone` sets
    one user's."""
    voice_replies: bool = True
    """Answer a voice message with speech, too, if the agent has a voice profile."""
    retention: RetentionConfig = RetentionConfig()
    """Retention of its logs and its memory; default: no limit."""
    reminders: ReminderConfig = ReminderConfig()
    """What memory adds to its user's messages without a request."""
    budgets: AgentBudgets = AgentBudgets()
    """Its own hard limits, which override those in `budgets`."""
    memory_between_people: MemoryBetweenPeople | None = None
    """Whether what one person tells it can be remembered in another person's conversations. Default:
    `separate` once its conversations have belonged to several people and `people` is set, else `shared`."""
    memory_prompts: MemoryPromptsConfig = MemoryPromptsConfig()
    """Its own prompts for `memory.model`."""
    settle_after_ms: int = Field(default=600_000, ge=1_000)
    """Quiet time after which memory gets a running session completely, and extracts facts from it. Without
    quiet it gets the session after three times as long."""
    wake_ups: WakeUpConfig | None = None
    """Wake the agent at intervals to look after what is open; `{}` does so hourly. Default: never."""
    idle_end: IdleEndConfig | None = None
    """End sessions by inactivity; `{}` ends them after 20 minutes. Default: only a stop ends a session."""


class FileLimits(WireModel):
    """Limits on files between users and agents."""

    received_mb: int = Field(default=20, ge=1, le=2_000)
    """The largest file from a user, in MB; Telegram gives bots files up to 20 MB."""
    sent_mb: int = Field(default=50, ge=1, le=2_000)
    """The largest file to a user, in MB; Telegram accepts up to 50 MB from bots."""
    received_keep_hours: int = Field(default=24, ge=1)
    """How long a user's file stays in `.choirtmp/recv/` after the agent has answered."""


class Config(WireModel):
    """The whole of config.json."""

    described_by: str | None = Field(default=None, alias="$schema", exclude=True)
    """For editors: the address of `docs/config.schema.json`, or of the output of `choirctl config schema`."""
    agents: dict[AgentName, AgentConfig]
    """Agents by id."""
    workspaces: dict[Name, WorkspaceConfig]
    """Working directories of agents, by name."""
    models: dict[Name, ModelConfig] = Field(default_factory=dict)
    """Language models, by name. If `default` is missing, the deployment supplies it: a detected provider, or
    the rehearsal model."""
    gateways: dict[Name, GatewayConfig] = Field(default_factory=dict)
    """Channels, by name."""
    dms: dict[Name, DmConfig] = Field(default_factory=dict)
    """Conversations, by name; messages from anyone else are ignored."""
    people: dict[Name, PersonConfig] = Field(default_factory=dict)
    """People, by name, with their rights and their identities on all channels. See docs/people.md."""
    global_repo: RepoConfig | None = None
    """Repository of tools, skills and identity that all agents share."""
    tts: dict[Name, TtsConfig] = Field(default_factory=dict)
    """Text-to-speech providers, by name."""
    voice_profiles: dict[Name, VoiceProfileConfig] = Field(default_factory=dict)
    """Voices, by name."""
    transcription: dict[Name, TranscriptionConfig] = Field(default_factory=dict)
    """Models that transcribe voice messages, by name; without one they reach the agent as files."""
    git_identities: dict[Name, GitIdentityConfig] = Field(default_factory=dict)
    """Git identities of agents, by name."""
    notion_integrations: dict[Name, NotionConfig] = Field(default_factory=dict)
    """Notion integrations, by name."""
    email_accounts: dict[Name, EmailConfig] = Field(default_factory=dict)
    """Mail accounts, by name."""
    search: dict[Name, SearchConfig] = Field(default_factory=dict)
    """Web search accounts, by name."""
    hooks: dict[Name, HookConfig] = Field(default_factory=dict)
    """Incoming webhooks, by name: `POST /v1/hooks/NAME` (docs/hooks.md)."""
    triggers: dict[Name, TriggerConfig] = Field(default_factory=dict)
    """Watched folders and mail that starts work, by name (docs/hooks.md)."""
    mcp: McpConfig = McpConfig()
    """Servers of the Model Context Protocol, whose tools agents may use. See docs/mcp.md."""
    harnesses: dict[HarnessName, HarnessConfig] = Field(default_factory=dict)
    """Coding agents of others that do core jobs, by name. See docs/harnesses.md."""
    skills: dict[SkillFolderName, SkillFolderConfig] = Field(default_factory=dict)
    """Folders with a SKILL.md that agents may use, by name; `choirctl skill add` adds one. See
    docs/skills.md."""
    embedding: EmbeddingConfig | None = None
    """The embedding model; `CHOIR_EMBEDDING_…` of the memory service takes precedence."""
    memory: MemoryConfig = MemoryConfig()
    """Long-term memory."""
    backup: BackupConfig | None = None
    """Regular backups of the whole home; without this section there are none. See docs/backup.md."""
    postgres: PostgresConfig | None = None
    """Address of a Postgres server with pgvector; without it the deployment's own server is used."""
    budgets: Budgets = Budgets()
    """Hard limits on what agents may use."""
    limits: FileLimits = FileLimits()
    """Limits on files between users and agents."""
    policy: tuple[PolicyRule, ...] = ()
    """Rules on tool calls: allow, ask or deny. The first rule that applies decides."""
    known_hosts: tuple[Pattern, ...] = DEFAULT_KNOWN_HOSTS
    """Patterns of hosts that agents reach without a question. Others ask, unless the user has named them;
    `*` turns the question off."""
    retention: RecordRetention = RecordRetention()
    """Retention of control's finished records; for logs and memory see `agents.NAME.retention`."""
    features: FeatureFlags = FeatureFlags()
    """Feature flags for parts of what agents do."""
    heartbeat_interval_ms: int = Field(default=5_000, ge=100)
    """The longest interval between an agent's heartbeats; an idle one costs a request."""
    crash_detection_threshold_ms: int = Field(default=10_000, ge=200)
    """Silence after which an agent counts as lost. At least twice the heartbeat interval (checked by
    control), against false alarms."""
    rate_limit_retry_ms: int = Field(default=1_000, ge=0)
    """The first delay before a model call is retried that was rate limited or failed."""
    log_archive_threshold_lines: int = Field(default=100_000, ge=1_000)
    """Lines after which a log file is archived and a new one started, also during a session."""
    log_archive_keep_days: int = Field(default=90, ge=1)
    """Days to keep archived logs; the newest of each source stays."""
    log_archive_keep_mb: int = Field(default=1_024, ge=1)
    """Megabytes of archived logs to keep of each source; the oldest are deleted first."""
    approval_timeout_ms: int = Field(default=1_800_000, ge=1_000)
    """Time for a human decision; after it the request expires."""
    event_window: int = Field(default=50, ge=4)
    """Events that the prompt contains in full."""
    compaction_threshold: float = Field(default=0.8, gt=0, le=1)
    """Share of the context window, without its fixed parts, at which old events are summarized."""
    summary_timeout_ms: int = Field(default=30_000, ge=0)
    """How long a stop waits for the session's summary."""


class AgentSettings(WireModel):
    """A running agent's part of the configuration: one versioned object, replaced as a whole."""

    model_name: str
    model: ModelConfig
    budgets: Budgets
    heartbeat_interval_ms: int
    rate_limit_retry_ms: int
    event_window: int
    core_model_name: str | None = None
    core_model: ModelConfig | None = None
    """None: core jobs use `model`."""
    vision_model_name: str | None = None
    vision_model: ModelConfig | None = None
    """None: pictures are not described."""
    wake_up_model_name: str | None = None
    wake_up_model: ModelConfig | None = None
    """The model of wake-ups that may end without a message; None: `model`."""
    fallback_models: dict[Name, ModelConfig] = Field(default_factory=dict)
    """The models that `fallback` of `model`, `core_model`, `vision_model` or `wake_up_model` names."""
    compaction_threshold: float = 0.8
    summary_timeout_ms: int = 30_000
    voice: VoiceBinding | None = None
    voice_replies: bool = True
    transcription: TranscriptionBinding | None = None
    git_identity: GitIdentityConfig | None = None
    notion: NotionConfig | None = None
    email: EmailConfig | None = None
    search: SearchConfig | None = None
    mcp: dict[str, McpServerConfig] = Field(default_factory=dict)
    """The MCP servers that the agent may use."""
    harnesses: dict[str, HarnessConfig] = Field(default_factory=dict)
    """The coding agents that its core jobs may be given to."""
    skills: dict[SkillFolderName, FolderHash] = Field(default_factory=dict)
    """The approved hashes of the skill folders that the agent may use, by name."""
    limits: FileLimits = FileLimits()
    workspace_limits: WorkspaceLimits = WorkspaceLimits()
    reminder_tokens: int = 0
    reminders: ReminderConfig = ReminderConfig()
    timezone: str = "UTC"
    streaming: bool = True
    features: FeatureFlags = FeatureFlags()
    policy: AgentPolicy = AgentPolicy()
    has_repository: bool = True
    """Whether there is a repository in which the agent's proposals can become commits."""
    conversations: tuple[AgentConversation, ...] = ()
    """All conversations of the session, the home conversation first; empty if it has only that one."""
    may_ask: tuple[str, ...] = ()
    """The other agents that it may ask."""
    has_client_tools: bool = False
    """Whether a conversation is with a program that may offer tools of its own."""

    def secret_names(self) -> frozenset[str]:
        """Return the names of the secrets these resources need."""
        secret_names = (
            self.model.secret,
            self.core_model and self.core_model.secret,
            self.vision_model and self.vision_model.secret,
            self.wake_up_model and self.wake_up_model.secret,
            *(model.secret for model in self.fallback_models.values()),
            self.voice and self.voice.tts.secret,
            self.transcription and self.transcription.config.secret,
            self.git_identity and self.git_identity.secret,
            self.notion and self.notion.secret,
            self.email and self.email.secret,
            self.search and self.search.secret,
            *(name for server in self.mcp.values() for name in server.secret_names()),
            *(name for harness in self.harnesses.values() for name in harness.secret_names()),
        )
        return frozenset(name for name in secret_names if name)


class MemoryPrompts(WireModel):
    """An agent's own prompts; None: the default."""

    extraction: str | None = None
    summaries: str | None = None


class MemoryServiceConfig(WireModel):
    """The part that the memory service's maintenance uses; it never contains a key.

    Memory reads it at the start of each maintenance pass.
    """

    model: ModelConfig | None = None
    """The language model that `memory.model` names; memory gets its key at startup."""
    fallback_models: dict[Name, ModelConfig] = Field(default_factory=dict)
    """The models that `fallback` of `model` names, with keys in the same way."""
    retention: dict[AgentName, RetentionConfig] = Field(default_factory=dict)
    """Retention of the agents that do not keep everything."""
    prompts: dict[AgentName, MemoryPrompts] = Field(default_factory=dict)
    """Prompts of the agents that have their own."""
