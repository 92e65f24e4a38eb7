"""The shape of `config.json` (spec 6.3) and the settings an agent gets from it.

Read by control (configuration) and `choirctl init`; only names of secrets stand here, never values.
"""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import AgentName, Name, Wire


class RepoConfig(Wire):
    """A git repository and the ref that is followed."""

    url: str = ""
    ref: str = "main"


class WorkspaceConfig(Wire):
    """A directory on the host that one agent at a time may hold."""

    path: str


class ModelConfig(Wire):
    """A language model behind an OpenAI-compatible endpoint that supports tool calls (spec 21)."""

    provider: str = "openai"
    model: str
    endpoint: str
    temperature: float | None = 0.7
    reasoning_effort: str | None = None
    secret: Name | None = None
    context_window: int = Field(default=128_000, ge=1_000)
    """Tokens; decides when working memory is compacted."""
    timeout_ms: int = Field(default=120_000, ge=1_000)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """The longest answer; the provider's own limit unless given. Also what a call reserves of the budget."""


class TtsConfig(Wire):
    """A text-to-speech provider (spec 21.3)."""

    provider: Literal["elevenlabs"] = "elevenlabs"
    model_id: str
    endpoint: str
    secret: Name


class VoiceSettings(Wire):
    """How a voice speaks; ranges as the provider defines them."""

    stability: float = Field(default=0.5, ge=0, le=1)
    similarity_boost: float = Field(default=0.75, ge=0, le=1)
    style: float = Field(default=0.0, ge=0, le=1)
    use_speaker_boost: bool = True
    speed: float = Field(default=1.0, ge=0.5, le=2)


class VoiceProfileConfig(Wire):
    """A named voice of a TTS provider."""

    tts: Name
    voice_id: str
    output_format: str = "mp3_44100_128"
    voice_settings: VoiceSettings = VoiceSettings()


class GitIdentityConfig(Wire):
    """Who an agent is in git; exclusive to one agent at a time."""

    name: str
    email: str
    secret: Name
    """A token for HTTPS, or a private key for SSH."""
    hosts: tuple[str, ...] = ("github.com",)
    """The only hosts that are ever given the credential."""
    username: str = "x-access-token"
    """What HTTPS remotes want beside the token."""


class NotionConfig(Wire):
    """A Notion integration; exclusive to one agent at a time."""

    secret: Name
    endpoint: str = "https://api.notion.com"


MailSecurity = Literal["tls", "starttls", "none"]


class EmailConfig(Wire):
    """A mail account over SMTP and IMAP; its secret is `user:password`."""

    smtp_host: str
    smtp_port: int = Field(ge=1, le=65535)
    imap_host: str
    imap_port: int = Field(ge=1, le=65535)
    sharing: Literal["exclusive", "shared"]
    secret: Name
    address: str | None = None
    """The sender's address; the user name unless given."""
    smtp_security: MailSecurity | None = None
    """By the port unless given: 465 is tls, any other starttls. `none` is for a server on this host."""
    imap_security: MailSecurity | None = None
    """By the port unless given: 993 is tls, any other starttls."""


class SearchConfig(Wire):
    """The Brave Search API."""

    secret: Name
    endpoint: str = "https://api.search.brave.com/res/v1"


class EmbeddingConfig(Wire):
    """An embedding model; without this section the offline model of the memory service is used."""

    provider: str = "openai"
    model: str
    dimensions: int = Field(ge=1, le=16_000)
    endpoint: str
    secret: Name | None = None


class GatewayConfig(Wire):
    """A channel instance: a Telegram bot (its token is the secret) or the console."""

    type: Literal["telegram", "console"]
    secret: Name | None = None
    api_url: str | None = None
    """Base address of the Bot API; only a self-hosted Bot API server needs it."""


class DmConfig(Wire):
    """One user on one gateway; the DMs of a gateway are its allowlist."""

    gateway: Name
    user_id: str
    admin: bool = False


class PostgresConfig(Wire):
    """Where Postgres is; without this section the deployment's own is used."""

    host: str
    port: int = Field(default=5432, ge=1, le=65535)
    database: str = "choir"
    secret: Name


class AgentDefaults(Wire):
    """What an agent is started with unless the start says otherwise."""

    workspace: Name
    llm: Name
    dm: Name
    core_llm: Name | None = None
    """The model of core jobs; `llm` unless given (spec 7.1: a fast edge, a deep core)."""
    search: Name | None = None
    """The web search; the first of `search` by name unless given."""
    voice_profile: Name | None = None
    git_identity: Name | None = None
    notion: Name | None = None
    email: Name | None = None


class AgentConfig(Wire):
    """An agent's definition."""

    defaults: AgentDefaults
    repo: RepoConfig = RepoConfig()
    autostart: bool = False
    """Start with control; `choirctl init` sets it for the first agent."""
    restart: Literal["on-crash", "never"] = "on-crash"


class Budgets(Wire):
    """Hard stops (spec 7.6)."""

    max_steps_per_turn: int = Field(default=40, ge=1)
    """Model calls in one turn; a turn of forty is a loop, not work."""
    max_tool_calls_per_turn: int = Field(default=100, ge=1)
    max_core_jobs: int = Field(default=8, ge=0)
    """Core jobs at the same time; each is a model conversation of its own."""
    max_core_jobs_per_message: int = Field(default=24, ge=0)
    """Core jobs from one message of the user's to the next: a job whose report starts jobs, and so on."""
    total_session_tokens: int = Field(default=20_000_000, ge=1)
    """Prompt and completion of every call of a session; the user can grant as much again."""
    max_tool_calls_per_session: int = Field(default=20_000, ge=1)
    per_job_max_steps: int = Field(default=100, ge=1)
    """Model calls in one core job."""
    per_job_max_tool_calls: int = Field(default=300, ge=1)
    per_job_wall_time_ms: int = Field(default=3_600_000, ge=1)
    max_injections_per_job: int = Field(default=20, ge=0)
    skill_step_retries: int = Field(default=2, ge=0)
    """Forbidden tools or transitions in one state of a skill before its error transition (spec 10.2)."""


class Config(Wire):
    """The whole of config.json."""

    agents: dict[AgentName, AgentConfig]
    workspaces: dict[Name, WorkspaceConfig]
    models: dict[Name, ModelConfig] = Field(default_factory=dict)
    """`default` may be absent: the deployment then supplies it (a detected provider, or rehearsal)."""
    gateways: dict[Name, GatewayConfig] = Field(default_factory=dict)
    dms: dict[Name, DmConfig] = Field(default_factory=dict)
    global_repo: RepoConfig | None = None
    tts: dict[Name, TtsConfig] = Field(default_factory=dict)
    voice_profiles: dict[Name, VoiceProfileConfig] = Field(default_factory=dict)
    git_identities: dict[Name, GitIdentityConfig] = Field(default_factory=dict)
    notion_integrations: dict[Name, NotionConfig] = Field(default_factory=dict)
    email_accounts: dict[Name, EmailConfig] = Field(default_factory=dict)
    search: dict[Name, SearchConfig] = Field(default_factory=dict)
    embedding: EmbeddingConfig | None = None
    postgres: PostgresConfig | None = None
    budgets: Budgets = Budgets()
    heartbeat_interval_ms: int = Field(default=5_000, ge=100)
    crash_detection_threshold_ms: int = Field(default=10_000, ge=200)
    """At least twice the heartbeat interval (checked by control), against false alarms."""
    rate_limit_retry_ms: int = Field(default=1_000, ge=0)
    log_archive_threshold_lines: int = Field(default=100_000, ge=1_000)
    approval_timeout_ms: int = Field(default=1_800_000, ge=1_000)
    """How long a human may take to decide; after that the answer is no (spec 19.6)."""
    event_window: int = Field(default=50, ge=4)
    """Events that stand in the prompt in full (spec 11.3)."""
    compaction_threshold: float = Field(default=0.8, gt=0, le=1)
    """The share of the context window, less what is never compacted, at which old events are folded."""
    summary_timeout_ms: int = Field(default=30_000, ge=0)
    """How long a stop waits for the session's summary (spec 11.8)."""


class VoiceBinding(Wire):
    """An agent's voice and who speaks it."""

    profile: VoiceProfileConfig
    tts: TtsConfig


class AgentSettings(Wire):
    """What a running agent needs of the config: one versioned blob, swapped whole (spec 16.3)."""

    model_name: str
    model: ModelConfig
    budgets: Budgets
    heartbeat_interval_ms: int
    rate_limit_retry_ms: int
    event_window: int
    core_model_name: str | None = None
    core_model: ModelConfig | None = None
    """None: core jobs think with `model`."""
    compaction_threshold: float = 0.8
    summary_timeout_ms: int = 30_000
    voice: VoiceBinding | None = None
    git_identity: GitIdentityConfig | None = None
    notion: NotionConfig | None = None
    email: EmailConfig | None = None
    search: SearchConfig | None = None

    def secret_names(self) -> frozenset[str]:
        """Return the names of the secrets these resources need (spec 14.2)."""
        named = (
            self.model.secret,
            self.core_model and self.core_model.secret,
            self.voice and self.voice.tts.secret,
            self.git_identity and self.git_identity.secret,
            self.notion and self.notion.secret,
            self.email and self.email.secret,
            self.search and self.search.secret,
        )
        return frozenset(name for name in named if name)
