"""The shape of `config.json` (spec 6.3) and the settings an agent gets from it.

Read by control (configuration) and `choirctl init`; only names of secrets stand here, never values.
"""

from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import BeforeValidator, Field

from choir_common.wire.budgets import AgentBudgets
from choir_common.wire.budgets import Budgets as Budgets
from choir_common.wire.model import AgentName, Name, Wire
from choir_common.wire.request_templates import FeatureFlags, RequestTemplate
from choir_common.wire.time_zones import TimeZone

OptionalName = Annotated[Name | None, BeforeValidator(lambda given: None if given == "" else given)]
"""A name, or none; empty is none."""


class RepoConfig(Wire):
    """A git repository and the ref that is followed."""

    url: str = ""
    """Where it is cloned from; empty: there is none yet."""
    ref: str = "main"
    """The branch, tag or commit that is followed."""
    git_identity: Name | None = None
    """Whose credential opens it, at its `hosts` alone; for an agent's: its own identity unless given."""


class WorkspaceConfig(Wire):
    """A directory on the host that one agent at a time may hold."""

    path: str
    """Absolute, or beginning with `~`; made if it is not there."""


class ModelConfig(Wire):
    """A language model behind an OpenAI-compatible endpoint that supports tool calls (spec 21)."""

    provider: str = "openai"
    """A word for people; every provider is spoken to in OpenAI's way."""
    model: str
    """The provider's own name of the model."""
    endpoint: str
    """The base address, up to `/v1`."""
    temperature: float | None = 0.7
    """null: it is not sent, which some models insist on."""
    reasoning_effort: str | None = None
    """What the provider knows by that name (`low`, `medium`, `high`); null: it is not sent."""
    secret: Name | None = None
    """The name of the secret that holds the key; null for an endpoint without one."""
    context_window: int = Field(default=128_000, ge=1_000)
    """Tokens; decides when working memory is compacted."""
    timeout_ms: int = Field(default=120_000, ge=1_000)
    """How long one answer may take; a slow model thinks for a minute."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """The longest answer; the provider's own limit unless given. Also what a call reserves of the budget."""
    request: RequestTemplate = RequestTemplate()
    """What is added to each request: further fields, headers, routing."""


class TtsConfig(Wire):
    """A text-to-speech provider (spec 21.3)."""

    provider: Literal["elevenlabs"] = "elevenlabs"
    """Whose API it is."""
    model_id: str
    """The provider's own name of the model."""
    endpoint: str
    """The base address, up to `/v1`."""
    secret: Name
    """The name of the secret that holds the key."""


class VoiceSettings(Wire):
    """How a voice speaks; ranges as the provider defines them."""

    stability: float = Field(default=0.5, ge=0, le=1)
    """Lower is livelier, higher is more even."""
    similarity_boost: float = Field(default=0.75, ge=0, le=1)
    """How close to the original voice it stays."""
    style: float = Field(default=0.0, ge=0, le=1)
    """How much the voice's style is exaggerated; costs time."""
    use_speaker_boost: bool = True
    """Whether likeness counts more than speed."""
    speed: float = Field(default=1.0, ge=0.5, le=2)
    """Times the usual pace."""


class VoiceProfileConfig(Wire):
    """A named voice of a TTS provider."""

    tts: Name
    """A name in `tts`."""
    voice_id: str
    """The provider's own id of the voice."""
    output_format: str = "mp3_44100_128"
    """The provider's own name of the format."""
    voice_settings: VoiceSettings = VoiceSettings()
    """How the voice speaks."""


class GitIdentityConfig(Wire):
    """Who an agent is in git; exclusive to one agent at a time."""

    name: str
    """The author's name in commits."""
    email: str
    """The author's address in commits."""
    secret: Name
    """A token for HTTPS, or a private key for SSH."""
    hosts: tuple[str, ...] = ("github.com",)
    """The only hosts that are ever given the credential."""
    username: str = "x-access-token"
    """What HTTPS remotes want beside the token."""


class NotionConfig(Wire):
    """A Notion integration; exclusive to one agent at a time."""

    secret: Name
    """The name of the secret that holds the integration's token."""
    endpoint: str = "https://api.notion.com"
    """The base address of the API."""


MailSecurity = Literal["tls", "starttls", "none"]


class EmailConfig(Wire):
    """A mail account over SMTP and IMAP; its secret is `user:password`."""

    smtp_host: str
    """Where mail is sent from."""
    smtp_port: int = Field(ge=1, le=65535)
    """Usually 465 or 587."""
    imap_host: str
    """Where mail is read."""
    imap_port: int = Field(ge=1, le=65535)
    """Usually 993."""
    sharing: Literal["exclusive", "shared"]
    """Whether one agent at a time has it, or any number."""
    secret: Name
    """The name of the secret that holds `user:password`."""
    address: str | None = None
    """The sender's address; the user name unless given."""
    smtp_security: MailSecurity | None = None
    """By the port unless given: 465 is tls, any other starttls. `none` is for a server on this host."""
    imap_security: MailSecurity | None = None
    """By the port unless given: 993 is tls, any other starttls."""


class SearchConfig(Wire):
    """The Brave Search API."""

    secret: Name
    """The name of the secret that holds the key."""
    endpoint: str = "https://api.search.brave.com/res/v1"
    """The base address of the API."""


class EmbeddingConfig(Wire):
    """An embedding model; without this section the offline model of the memory service is used."""

    provider: str = "openai"
    """A word for people; every provider is spoken to in OpenAI's way."""
    model: str
    """The provider's own name of the model."""
    dimensions: int = Field(ge=1, le=4_000)
    """How long its vectors are; after a change memory embeds anew what it has stored."""
    endpoint: str = Field(pattern=r"^https?://\S+$")
    """The base address, up to `/v1`."""
    secret: Name | None = None
    """The name of the secret that holds the key."""


class MemoryConfig(Wire):
    """What becomes of sessions in memory, and what it may use beside its embedding model."""

    model: OptionalName = None
    """A name in `models` that sums up past days and extracts facts; none: selections, no facts."""
    mid_term_sessions: int = Field(default=10, ge=0, le=100_000)
    """An agent's newest sessions in mid-term memory; older ones are found by their summary as well."""
    reminder_tokens: int = Field(default=600, ge=0, le=20_000)
    """What memory may lay beside a user's message unasked, in tokens; 0: nothing, the agent looks itself."""


class RecordRetention(Wire):
    """How many days control keeps records that are done with; null: for ever."""

    messages: int | None = Field(default=90, ge=1)
    """Messages in and out, once answered and delivered; log and memory have their words, too."""
    operations: int | None = Field(default=90, ge=1)
    """Operations that have ended, such as updates."""
    approvals: int | None = Field(default=365, ge=1)
    """Decided approvals of ended sessions; afterwards `approval rollback` cannot take them back."""
    config_versions: int | None = Field(default=365, ge=1)
    """Earlier versions of config.json; the newest 20 stay whatever their age."""
    sessions: int | None = Field(default=365, ge=1)
    """Ended sessions without a log, from its erasure on, with its hashes; an agent's newest one stays."""
    deleted_agents: int | None = Field(default=None, ge=1)
    """Logs of ended sessions of agents that are not in config.json any more."""


class RetentionConfig(Wire):
    """How many days what of an agent is kept; null: for ever. What memory summed up outlives its sources."""

    log: int | None = Field(default=None, ge=1)
    """Logs of ended sessions, event by event, with their messages. Memory keeps its own copy; hashes stay."""
    turns: int | None = Field(default=None, ge=1)
    """What was said and done, word by word; the summaries of sessions and of days stay."""
    vectors: int | None = Field(default=None, ge=1)
    """Vectors of what was said and done; without them it is found by its words alone."""
    days: int | None = Field(default=None, ge=7)
    """Summaries of days; one goes with its week, once all of that is old enough."""
    weeks: int | None = Field(default=None, ge=31)
    """Summaries of weeks; they go by the month."""
    months: int | None = Field(default=None, ge=92)
    """Summaries of months; they go by the quarter."""
    quarters: int | None = Field(default=None, ge=366)
    """Summaries of quarters; they go by the year."""
    years: int | None = Field(default=None, ge=366)
    """Summaries of years."""


class WebhookConfig(Wire):
    """Where Telegram brings a bot's updates, instead of being asked for them."""

    url: str = Field(pattern=r"^https?://\S+$", max_length=1_000)
    """Public https address that ends at the gateway's `POST /telegram/NAME`."""
    secret: Name
    """The name of the secret that Telegram shows with each update: letters, digits, `_` and `-`."""


class GatewayConfig(Wire):
    """A channel instance: a Telegram bot (its token is the secret) or the console."""

    type: Literal["telegram", "console"]
    """What kind of channel it is."""
    secret: Name | None = None
    """The name of the secret that holds the bot's token; the console has none."""
    api_url: str | None = None
    """Base address of the Bot API; only a self-hosted Bot API server needs it."""
    webhook: WebhookConfig | None = None
    """Have Telegram bring updates; without it the gateway asks for them, which needs no public address."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of all the secrets this channel works with."""
        hook = self.webhook.secret if self.webhook else None
        return tuple(name for name in (self.secret, hook) if name is not None)


class DmConfig(Wire):
    """One user on one gateway; the DMs of a gateway are its allowlist."""

    gateway: Name
    """A name in `gateways`."""
    user_id: str
    """Who it is on that channel; Telegram's are numbers, as text."""
    admin: bool = False
    """Whether this user may decide and give orders, besides talking."""


class PostgresConfig(Wire):
    """Where Postgres is, with pgvector; without this section the deployment's own is used."""

    host: str
    """Name or address, or the directory of its socket."""
    port: int = Field(default=5432, ge=1, le=65535)
    """Postgres' own port unless given."""
    database: str = "choir"
    """It must exist."""
    user: str = "choir"
    """Who logs in; it makes schemas and roles, so it needs CREATEROLE and the database."""
    secret: Name
    """The name of the secret that holds the password."""

    @property
    def dsn(self) -> str:
        """Return the address, without the password."""
        user, database = quote(self.user, safe=""), quote(self.database, safe="")
        if self.host.startswith("/"):
            return f"postgresql://{user}@/{database}?host={quote(self.host)}&port={self.port}"
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        return f"postgresql://{user}@{host}:{self.port}/{database}"


class AgentDefaults(Wire):
    """What an agent is started with unless the start says otherwise."""

    workspace: Name
    """A name in `workspaces`; held by one agent at a time."""
    llm: Name
    """A name in `models`: what the edge lane thinks with."""
    dm: Name
    """A name in `dms`: whom it talks to; held by one agent at a time."""
    core_llm: Name | None = None
    """The model of core jobs; `llm` unless given (spec 7.1: a fast edge, a deep core)."""
    search: Name | None = None
    """The web search; the first of `search` by name unless given."""
    voice_profile: OptionalName = None
    """A name in `voice_profiles`; without one it cannot speak."""
    git_identity: OptionalName = None
    """A name in `git_identities`; held by one agent at a time."""
    notion: OptionalName = None
    """A name in `notion_integrations`; held by one agent at a time."""
    email: OptionalName = None
    """A name in `email_accounts`."""


class AgentConfig(Wire):
    """An agent's definition."""

    defaults: AgentDefaults
    """What it is started with."""
    repo: RepoConfig = RepoConfig()
    """Its own tools, skills and identity."""
    autostart: bool = False
    """Start with control; `choirctl init` sets it for the first agent."""
    restart: Literal["on-crash", "never"] = "on-crash"
    """Whether a crashed session is taken up again."""
    timezone: TimeZone | None = None
    """The user's time zone by its IANA name, as on each message in the prompt; the host's unless given."""
    retention: RetentionConfig = RetentionConfig()
    """How long its logs and its memory are kept; for ever unless given."""
    budgets: AgentBudgets = AgentBudgets()
    """Its own hard stops, in the place of those in `budgets`."""


class FileLimits(Wire):
    """How much may travel between users and agents beside words."""

    received_mb: int = Field(default=20, ge=1, le=2_000)
    """The largest file of a user's, in MB; Telegram hands bots no larger ones than 20."""
    sent_mb: int = Field(default=50, ge=1, le=2_000)
    """The largest file to a user, in MB; Telegram takes no larger ones than 50 from bots."""
    received_keep_hours: int = Field(default=24, ge=1)
    """How long a user's file stays in `.choirtmp/recv/` after the agent has answered."""


class Config(Wire):
    """The whole of config.json."""

    described_by: str | None = Field(default=None, alias="$schema", exclude=True)
    """For editors: the address of `docs/config.schema.json`, or of what `choirctl config schema` prints."""
    agents: dict[AgentName, AgentConfig]
    """Agents by id."""
    workspaces: dict[Name, WorkspaceConfig]
    """Directories agents work in, by name."""
    models: dict[Name, ModelConfig] = Field(default_factory=dict)
    """`default` may be absent: the deployment then supplies it (a detected provider, or rehearsal)."""
    gateways: dict[Name, GatewayConfig] = Field(default_factory=dict)
    """Channels, by name."""
    dms: dict[Name, DmConfig] = Field(default_factory=dict)
    """Conversations, by name; nobody else is listened to."""
    global_repo: RepoConfig | None = None
    """Tools, skills and identity that all agents share."""
    tts: dict[Name, TtsConfig] = Field(default_factory=dict)
    """Text-to-speech providers, by name."""
    voice_profiles: dict[Name, VoiceProfileConfig] = Field(default_factory=dict)
    """Voices, by name."""
    git_identities: dict[Name, GitIdentityConfig] = Field(default_factory=dict)
    """Who agents are in git, by name."""
    notion_integrations: dict[Name, NotionConfig] = Field(default_factory=dict)
    """Notion integrations, by name."""
    email_accounts: dict[Name, EmailConfig] = Field(default_factory=dict)
    """Mail accounts, by name."""
    search: dict[Name, SearchConfig] = Field(default_factory=dict)
    """Web searches, by name."""
    embedding: EmbeddingConfig | None = None
    """What turns text into vectors; `CHOIR_EMBEDDING_…` of the memory service counts more."""
    memory: MemoryConfig = MemoryConfig()
    """Long-term memory."""
    postgres: PostgresConfig | None = None
    """Where Postgres is; without it the deployment's own server is used. It has to have pgvector."""
    budgets: Budgets = Budgets()
    """Hard stops on what agents may use."""
    limits: FileLimits = FileLimits()
    """Bounds on files that travel between users and agents."""
    retention: RecordRetention = RecordRetention()
    """How long control keeps records that are done with; logs and memory: `agents.NAME.retention`."""
    features: FeatureFlags = FeatureFlags()
    """Switches for parts of what agents do."""
    heartbeat_interval_ms: int = Field(default=5_000, ge=100)
    """The longest pause between an agent's signs of life; a quiet one costs a request."""
    crash_detection_threshold_ms: int = Field(default=10_000, ge=200)
    """At least twice the heartbeat interval (checked by control), against false alarms."""
    rate_limit_retry_ms: int = Field(default=1_000, ge=0)
    """The first pause before a model call is repeated that was limited in rate or got no answer."""
    log_archive_threshold_lines: int = Field(default=100_000, ge=1_000)
    """Lines after which a log file is compressed and a new one begun, an agent's also amid its session."""
    log_archive_keep_days: int = Field(default=90, ge=1)
    """Days that a compressed log is kept; the newest of each source stays."""
    log_archive_keep_mb: int = Field(default=1_024, ge=1)
    """Megabytes of compressed logs that are kept of each source; the oldest go first."""
    approval_timeout_ms: int = Field(default=1_800_000, ge=1_000)
    """How long a human may take to decide; after that the request expires (spec 19.6)."""
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
    limits: FileLimits = FileLimits()
    reminder_tokens: int = 0
    timezone: str = "UTC"
    features: FeatureFlags = FeatureFlags()
    has_repository: bool = True
    """Whether there is a repository that proposals of the agent can become commits in."""

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


def secret_uses(config: Config) -> dict[str, tuple[str, ...]]:
    """Return the secrets that a configuration names, each with the places that name it."""
    found: dict[str, list[str]] = {}
    for section, entries in config.model_dump(mode="json").items():
        named = {"": entries} if section in ("embedding", "postgres") else entries
        for name, entry in named.items() if isinstance(named, dict) else ():
            secret = entry.get("secret") if isinstance(entry, dict) else None
            if secret is not None:
                found.setdefault(secret, []).append(f"{section}.{name}".rstrip("."))
    for name, gateway in config.gateways.items():
        if gateway.webhook is not None:
            found.setdefault(gateway.webhook.secret, []).append(f"gateways.{name}.webhook")
    return {secret: tuple(places) for secret, places in sorted(found.items())}
