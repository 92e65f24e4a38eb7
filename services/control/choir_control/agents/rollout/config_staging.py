"""Two-phase configuration changes: stage what config.json contains, then apply exactly that.

`load` checks config.json and all repositories and stages both as one snapshot, or nothing. `apply`
changes no repository; builds and updates do that.

`apply` is all or nothing because of its order. Steps that can fail and be undone come first (the
sockets of new agents). Then one database row is the commit. Steps after the row cannot fail, or the
affected processes detect the new version themselves. See docs/design/configuration.md.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog

from choir_common.clock import Clock
from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _
from choir_common.wire.config import Config
from choir_common.wire.config_api import ConfigChange, RepoChange
from choir_control.agents.sessions.config_propagation import ConfigVersionTracker
from choir_control.agents.sessions.conversation_reconciler import ConversationReconciler
from choir_control.configuration.current import ConfigCandidate, ConfigService, ConfigSnapshot
from choir_control.configuration.diff import diff_configs
from choir_control.configuration.secrets.store import MIN_SECRET_LENGTH, SecretStore
from choir_control.images.outdated_agents import OutdatedImages
from choir_control.images.repositories.survey import RepositorySurvey, RepositorySurveyor

log = structlog.get_logger("choir.configuration")


class AgentSocketOpener(Protocol):
    """Server of the agents' own sockets, as seen by a change of the configuration."""

    def open_for(self, agent_ids: Sequence[str]) -> AbstractContextManager[None]:
        """Open the sockets of new agents; close them again if the block raises."""


@dataclass(frozen=True, slots=True)
class StagedConfig:
    """A configuration and the repository commits that `load` checked together."""

    candidate: ConfigCandidate
    repos: RepositorySurvey
    at: datetime

    @property
    def digest(self) -> str:
        """Return the SHA-256 over the configuration and the commit of each repository."""
        commits = [
            f"{owner} {commit}" for owner, commit in sorted(self.repos.commits_by_owner.items())
        ]
        return hashlib.sha256("\n".join((self.candidate.digest, *commits)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StagedDifference:
    """The staged configuration compared with the one in force."""

    staged: StagedConfig
    running_version: int
    changes: tuple[ConfigChange, ...]
    repos: tuple[RepoChange, ...]
    warnings: tuple[str, ...]


class ConfigStaging:
    """Staging area for at most one configuration."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        clock: Clock,
        secrets: SecretStore,
        surveyor: RepositorySurveyor,
        outdated_images: OutdatedImages,
        version_tracker: ConfigVersionTracker,
        sockets: AgentSocketOpener,
        conversations: ConversationReconciler,
    ) -> None:
        self._configuration = configuration
        self._clock = clock
        self._secrets = secrets
        self._surveyor = surveyor
        self._outdated_images = outdated_images
        self._version_tracker = version_tracker
        self._sockets = sockets
        self._conversations = conversations
        self._staged: StagedConfig | None = None
        self._apply_lock = asyncio.Lock()
        self._loading = asyncio.Lock()

    @property
    def waiting(self) -> bool:
        """Whether a configuration is staged."""
        return self._staged is not None

    async def load(self) -> StagedDifference:
        """Read, check and stage config.json and all repositories.

        Replaces what was staged before; after an error the earlier one stays. Takes up to a minute
        if remotes do not respond. Raises InvalidRequest with the file, the path inside it and the remedy.
        """
        async with self._loading:
            candidate = await asyncio.to_thread(self._configuration.read)
            self._refuse_values(candidate)
            repos = await self._surveyor.survey(candidate.config)
            # Assign only after every check, so that a failed load leaves the earlier one staged.
            self._staged = staged = StagedConfig(candidate, repos, self._clock.now())
            log.info("configuration staged", digest=staged.digest, commits=repos.commits_by_owner)
        return await self._difference(staged)

    async def diff(self) -> StagedDifference:
        """Compare the staged configuration with the one in force; raises Conflict if none is staged."""
        return await self._difference(self._expect(None))

    async def apply(self, digest: str | None) -> tuple[ConfigSnapshot, StagedDifference]:
        """Apply the staged configuration; return the new snapshot and the differences.

        Raises Conflict if nothing is staged, or if `digest` does not match it. Raises Unavailable
        if a socket or the database fails: nothing has changed then, and the configuration stays
        staged.
        """
        async with self._apply_lock:
            staged = self._expect(digest)
            difference = await self._difference(staged)
            return await self._put_in_force(difference), difference

    async def apply_file(self, expected_config: Config) -> int:
        """Apply the content of the file if it equals `expected_config`; return the version.

        Safe to repeat after a crash: a second call only notifies again. A different configuration
        that an operator staged stays staged. Raises Conflict if the file differs, and the errors of
        `apply`.
        """
        async with self._apply_lock:
            candidate = await asyncio.to_thread(self._configuration.read)
            self._refuse_values(candidate)
            if candidate.file_config != expected_config:
                raise Conflict(
                    _("{path} has been edited since.").format(path=self._configuration.path)
                )
            difference = await self._difference(
                StagedConfig(candidate, RepositorySurvey(), self._clock.now())
            )
            return (await self._put_in_force(difference)).version

    async def _put_in_force(self, difference: StagedDifference) -> ConfigSnapshot:
        candidate = difference.staged.candidate
        running = self._configuration.current.config.agents
        added = [name for name in candidate.config.agents if name not in running]
        # A socket may fail, so it is opened before the commit and closed if the commit fails.
        with self._sockets.open_for(added):
            snapshot = await self._configuration.put_in_force(candidate, "config")
        if self._staged is not None and self._staged.candidate.digest == candidate.digest:
            self._staged = None
        log.info(
            "configuration applied",
            version=snapshot.version,
            changes=[change.path for change in difference.changes],
        )
        # The configuration is in force; a lost notification only delays the agents.
        await self._version_tracker.announce(snapshot.version)
        await self._conversations.apply()
        return snapshot

    def _expect(self, digest: str | None) -> StagedConfig:
        if self._staged is None:
            raise Conflict(_("Nothing is staged. Run `choirctl config load` first."))
        if digest not in (None, self._staged.digest):
            raise Conflict(
                _(
                    "Another configuration was staged in the meantime. Check `choirctl config diff`, then "
                    "apply again."
                )
            )
        return self._staged

    async def _difference(self, staged: StagedConfig) -> StagedDifference:
        current, config = self._configuration.current, staged.candidate.config
        warnings = await self._version_tracker.warn(config)
        return StagedDifference(
            staged,
            current.version,
            diff_configs(self._configuration.declared, config),
            await self._outdated_images.changes(config, staged.repos),
            (*staged.repos.warnings, *warnings),
        )

    def _refuse_values(self, candidate: ConfigCandidate) -> None:
        """Reject a config.json that contains the value of a secret; only names belong there.

        The value would otherwise reach the database and the output of `config show`.
        """
        name = self._secrets.find_in_text(candidate.body, MIN_SECRET_LENGTH)
        if name is not None:
            raise InvalidRequest(
                _(
                    "{path} holds the value of the secret {name!r}. Only names of secrets belong there: "
                    "write the name into a `secret` field."
                ).format(path=self._configuration.path, name=name)
            )
