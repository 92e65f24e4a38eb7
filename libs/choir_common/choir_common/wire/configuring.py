"""Configuration and secrets as operators see them: what would change, what did, and who has it (spec 17.6).

Read by choirctl; answered by control under `/v1/config` and `/v1/secrets`. No value of a secret stands here.
"""

from typing import Literal

from pydantic import Field, JsonValue

from choir_common.wire.json import JsonObject
from choir_common.wire.model import Moment, Wire

Category = Literal["hot-reload", "restart-required", "new-agent", "removed-agent"]
ChangeKind = Literal["added", "removed", "changed"]
PartState = Literal["applied", "waiting", "failed"]


class ConfigChange(Wire):
    """One place of config.json that differs between what is staged and what is in force."""

    path: str
    """Dotted, as it stands in the file: `models.default.temperature`."""
    kind: ChangeKind
    category: Category
    agents: tuple[str, ...] = ()
    """Whom it concerns: the agents whose defaults lead there, before or after."""
    before: JsonValue = None
    after: JsonValue = None
    note: str = ""
    """What it takes for this change to work, if `config apply` alone is not enough."""


class RepoFile(Wire):
    """A file of a repository that differs."""

    path: str
    kind: ChangeKind


class RepoChange(Wire):
    """A repository that has gone on since the images of some agents were built from it (spec 17.6)."""

    owner: str
    """`global`, or the agent whose own it is."""
    agents: tuple[str, ...]
    """Those whose image is older than what is staged."""
    before: str | None
    """The commit in their image; None: they have none yet."""
    after: str
    """The commit that is staged."""
    stale: bool
    """Whether it could not be fetched just now, so that its remote may have gone on."""
    category: Category = "restart-required"
    note: str
    """What to do; `config apply` changes nothing about it."""
    files: tuple[RepoFile, ...]
    more: int = 0
    """Files that differ and are not listed."""


class ConfigDiff(Wire):
    """What is staged against what is in force: of config.json, and of the repositories."""

    running_version: int
    digest: str
    """Names what is staged; `apply` with it puts in force exactly what was shown."""
    staged_at: Moment
    changes: tuple[ConfigChange, ...]
    """Of config.json: `config apply` puts them in force."""
    repos: tuple[RepoChange, ...] = ()
    """Of the repositories: a build or an update of the agents does."""
    warnings: tuple[str, ...] = ()


class ApplyConfig(Wire):
    """Put in force what is staged."""

    digest: str | None = None
    """Of what was shown; if something else is staged by now, nothing is applied."""


class ConfigView(Wire):
    """The configuration in force."""

    version: int
    source: Literal["file", "last-good"]
    note: str = ""
    """Why it is not what config.json says."""
    config: JsonObject
    staged: bool
    """Whether another one waits for `config apply`."""


class PartReport(Wire):
    """Who has the version in force: an agent, or the gateway."""

    name: str
    state: PartState
    version: int | None
    """The version it last said it has; None: it has not said."""
    session_id: str | None = None
    detail: str = ""


class ConfigReport(Wire):
    """How far the version in force has come."""

    version: int
    agents: tuple[PartReport, ...]
    gateway: PartReport

    @property
    def settled(self) -> bool:
        """Whether nobody is on the way any more: each has it, or failed."""
        return all(part.state != "waiting" for part in (*self.agents, self.gateway))


class ConfigApplied(Wire):
    """A version was put in force; whoever runs is being told."""

    version: int
    changes: tuple[ConfigChange, ...]
    warnings: tuple[str, ...]
    report: ConfigReport


class SecretsApplied(Wire):
    """secrets.json was read again, and whoever uses its secrets is being told; names only."""

    version: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    overridden: tuple[str, ...] = ()
    """Set by the environment of the deployment, which counts more than the file."""
    at_restart: tuple[str, ...] = ()
    """Changed, and used by a service that reads them when it starts."""
    missing: tuple[str, ...] = ()
    """Named in the configuration, and not set."""
    report: ConfigReport


class SecretName(Wire):
    """A secret's name, whether it has a value, and the places of config.json that use it."""

    name: str
    set: bool
    used_by: tuple[str, ...] = ()


class BotTokens(Wire):
    """What control hands to the gateway over its own door, never over the bus."""

    version: int
    tokens: dict[str, str] = Field(repr=False)
    control_ca: str = ""
    """The certificates (PEM) by which the gateway knows control over HTTPS, where it fetches files."""
