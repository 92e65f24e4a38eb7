"""Configuration and secrets over `/v1`: pending changes, applied changes and their progress.

Used by choirctl; control serves them under `/v1/config` and `/v1/secrets`. Contains names of secrets, no
values, except `BotTokens`.
"""

from typing import Literal

from pydantic import Field, JsonValue

from choir_common.wire.model import AwareTime, JsonObject, WireModel

Category = Literal["hot-reload", "restart-required", "new-agent", "removed-agent"]
ChangeKind = Literal["added", "removed", "changed"]
MAX_VALUE_LENGTH = 100_000
PartState = Literal["applied", "waiting", "failed"]


class ConfigChange(WireModel):
    """One path of config.json that differs between the staged and the current configuration."""

    path: str
    """Dotted path in the file: `models.default.temperature`."""
    kind: ChangeKind
    category: Category
    agents: tuple[str, ...] = ()
    """The agents affected, because their defaults refer to it before or after the change."""
    before: JsonValue = None
    after: JsonValue = None
    note: str = ""
    """What else the change requires, if `config apply` alone is not enough."""


class RepoFile(WireModel):
    """A changed file of a repository."""

    path: str
    kind: ChangeKind


class RepoChange(WireModel):
    """A repository with newer commits than the images of some agents."""

    owner: str
    """`global`, or the id of the agent that owns it."""
    agents: tuple[str, ...]
    """The agents whose image is older than the staged commit."""
    before: str | None
    """The commit in their image; None if there is no image yet."""
    after: str
    """The staged commit."""
    stale: bool
    """Whether the last fetch failed, so that the remote may be newer."""
    category: Category = "restart-required"
    note: str
    """What to do; `config apply` does not change it."""
    files: tuple[RepoFile, ...]
    more: int = 0
    """Number of changed files that are not listed."""


class ConfigDiff(WireModel):
    """Differences between the staged and the current state, of config.json and of the repositories."""

    running_version: int
    digest: str
    """Identifies the staged state; `apply` with it applies exactly what was shown."""
    staged_at: AwareTime
    changes: tuple[ConfigChange, ...]
    """Changes of config.json; `config apply` applies them."""
    repos: tuple[RepoChange, ...] = ()
    """Changes of repositories; a build or an agent update applies them."""
    warnings: tuple[str, ...] = ()


class ApplyConfig(WireModel):
    """Apply the staged configuration."""

    digest: str | None = None
    """Digest of the diff that was shown; if another state is staged by now, nothing is applied."""


class ConfigView(WireModel):
    """The current configuration."""

    version: int
    source: Literal["file", "last-good"]
    note: str = ""
    """Why it differs from config.json."""
    config: JsonObject
    staged: bool
    """Whether another configuration is staged and not applied."""


class ConfigText(WireModel):
    """The text of config.json. What it says is active only after `config load` and `config apply`."""

    path: str
    """The file, on the machine of control."""
    text: str
    digest: str
    """SHA-256 of the file; pass it to replace exactly this text."""


class WriteConfigText(WireModel):
    """Replace the text of config.json."""

    text: str = Field(max_length=3_000_000)
    digest: str = Field(max_length=64)
    """The digest of the text that was edited; if the file has another one, nothing is written."""


class ConfigPartStatus(WireModel):
    """Whether an agent or the gateway has the current version."""

    name: str
    state: PartState
    version: int | None
    """The version it last reported; None if it has not reported one."""
    session_id: str | None = None
    detail: str = ""


class ConfigProgress(WireModel):
    """Progress of the current version."""

    version: int
    agents: tuple[ConfigPartStatus, ...]
    gateway: ConfigPartStatus

    @property
    def settled(self) -> bool:
        """Whether no part is waiting: each has applied the version or failed."""
        return all(part.state != "waiting" for part in (*self.agents, self.gateway))


class ConfigApplied(WireModel):
    """A version was applied; running agents and the gateway are being notified."""

    version: int
    changes: tuple[ConfigChange, ...]
    warnings: tuple[str, ...]
    report: ConfigProgress


class SecretsApplied(WireModel):
    """secrets.json was read again, and the users of its secrets are being notified. Names only."""

    version: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    overridden: tuple[str, ...] = ()
    """Set by the deployment's environment, which takes precedence over the file."""
    at_restart: tuple[str, ...] = ()
    """Changed, but used by a service that reads them only at startup."""
    missing: tuple[str, ...] = ()
    """Named in the configuration but not set."""
    report: ConfigProgress


class SecretName(WireModel):
    """A secret's name, whether it is set, and the config paths that use it."""

    name: str
    set: bool
    used_by: tuple[str, ...] = ()


class SetSecret(WireModel):
    """Store the value of a secret. It can be replaced, but not read."""

    value: str = Field(repr=False, min_length=1, max_length=MAX_VALUE_LENGTH)


class SecretStored(WireModel):
    """The value is in secrets.json; `POST /v1/secrets/apply` gives it to what uses it."""

    name: str
    replaced: bool
    """Whether the secret had a value before."""


class BotTokens(WireModel):
    """Bot tokens that control sends to the gateway over HTTP, never over NATS."""

    version: int
    tokens: dict[str, str] = Field(repr=False)
    control_ca: str = ""
    """The certificates (PEM) with which the gateway verifies control over HTTPS to fetch files."""
