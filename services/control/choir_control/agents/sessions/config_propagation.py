"""Distribution of a new version of configuration or secrets, and a report of who has applied it.

The notification only saves time: an agent that missed it learns the version from its next heartbeat's
response, and the gateway from its next periodic request.
"""

from dataclasses import dataclass

import structlog

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.errors import ChoirError, NotFound
from choir_common.i18n import _
from choir_common.wire.config import Config
from choir_common.wire.config_api import ConfigPartStatus, ConfigProgress, PartState
from choir_common.wire.messages import Empty
from choir_common.wire.rpc import ResourceBindings
from choir_common.wire.signals import ConfigChangedSignal
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.configuration.secrets.bot_tokens import BotTokenPublisher
from choir_control.log.leases.store import Lease
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier
from choir_control.log.signals.store import SignalStore

log = structlog.get_logger("choir.configuration")

GONE = _("no longer in config.json; it runs until it is stopped")


@dataclass(frozen=True, slots=True)
class _ReportedVersion:
    session_id: str
    epoch: int
    version: int


class ConfigVersionTracker:
    """Configuration versions of the running agents and the gateway."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        store: SessionStore,
        signals: SignalStore,
        signal_locks: SignalLocks,
        notifier: Notifier,
        token_publisher: BotTokenPublisher,
        bus: Bus,
    ) -> None:
        self._configuration = configuration
        self._store = store
        self._signals = signals
        self._signal_locks = signal_locks
        self._notifier = notifier
        self._token_publisher = token_publisher
        self._bus = bus
        self._reported_versions: dict[str, _ReportedVersion] = {}

    def record_version(self, lease: Lease, version: int) -> None:
        """Record the version that an agent reports."""
        self._reported_versions[lease.agent_id] = _ReportedVersion(
            lease.session_id, lease.epoch, version
        )

    def version_of(self, session: SessionRow) -> int | None:
        """Return the version that a session's agent last reported, or None."""
        report = self._reported_versions.get(session.agent_id)
        if report is None or (report.session_id, report.epoch) != (
            session.session_id,
            session.epoch,
        ):
            return None
        return report.version

    async def announce(self, version: int) -> None:
        """Notify all running agents and the gateway; a failure only delays them."""
        try:
            for session in await self._store.list_live():
                await self._notify(session, version)
        except ChoirError as error:
            log.warning(
                "agents not notified; they get the version by heartbeat",
                version=version,
                error=error.message,
            )
        try:
            await self.notify_gateway()
        # the bus is unavailable or closing: the gateway asks periodically
        except Exception as error:
            log.warning(
                "gateway not notified; it requests the version later",
                version=version,
                error=repr(error),
            )

    async def notify_gateway(self) -> None:
        """Notify the gateway that its channels have changed; raises the errors of the bus."""
        await self._bus.publish(subjects.channels_changed(), Empty())

    async def _notify(self, session: SessionRow, version: int) -> None:
        if session.status not in ("starting", "active"):
            return  # a stopping session needs no new version; a crashed one starts with the newest
        body = ConfigChangedSignal(config_version=version)
        async with self._signal_locks.of(session.bindings.dm):
            seq = await self._signals.send_replacing(session.session_id, body)
        if seq is not None:
            self._notifier.notify(session.session_id)

    async def warn(self, after: Config) -> list[str]:
        """Return warnings about running agents that use something this configuration no longer has."""
        warnings: list[str] = []
        for session in await self._store.list_live():
            if session.agent_id not in after.agents:
                warnings.append(
                    _("agent {agent_id} runs and would be {gone}").format(
                        agent_id=session.agent_id, gone=GONE
                    )
                )
            for kind, name in _missing(after, session.bindings):
                warnings.append(
                    _("agent {agent_id} is using the {kind} {name!r}, which would be gone").format(
                        agent_id=session.agent_id, kind=kind, name=name
                    )
                )
        return warnings

    async def report(self) -> ConfigProgress:
        """Return which agents and gateway have applied the version in force."""
        snapshot = self._configuration.current
        live = sorted(await self._store.list_live(), key=lambda row: row.agent_id)
        return ConfigProgress(
            version=snapshot.version,
            agents=tuple(self._agent(snapshot, session) for session in live),
            gateway=self._gateway(snapshot),
        )

    def _agent(self, snapshot: ConfigSnapshot, session: SessionRow) -> ConfigPartStatus:
        version = self.version_of(session)
        target = snapshot.version_for(session.settings_rev)
        detail = "" if session.agent_id in snapshot.config.agents else GONE
        if version == target:
            return _row(session, "applied", version, detail)
        try:
            snapshot.settings_for(session.agent_id, session.bindings)
        except NotFound as error:
            reason = _(
                "{message} It keeps its current settings; restart it, or restore that entry."
            ).format(message=error.message)
            return _row(session, "failed", version, reason)
        if session.status == "crashed":
            return _row(
                session, "waiting", version, _("it crashed; it gets the version when it is resumed")
            )
        if session.status == "stopping":
            return _row(session, "failed", version, _("it is being stopped"))
        return _row(session, "waiting", version, detail or _("until its next heartbeat"))

    def _gateway(self, snapshot: ConfigSnapshot) -> ConfigPartStatus:
        version, failure = self._token_publisher.reported_version, self._token_publisher.failure
        if version == snapshot.version:
            return ConfigPartStatus(name="gateway", state="applied", version=version)
        if failure:
            return ConfigPartStatus(
                name="gateway", state="failed", version=version, detail=f"{failure}; retrying"
            )
        detail = _("it has not requested its channels yet") if version is None else ""
        return ConfigPartStatus(name="gateway", state="waiting", version=version, detail=detail)


def _row(session: SessionRow, state: PartState, has: int | None, detail: str) -> ConfigPartStatus:
    return ConfigPartStatus(
        name=session.agent_id,
        state=state,
        version=has,
        session_id=session.session_id,
        detail=detail,
    )


def _missing(config: Config, bindings: ResourceBindings) -> list[tuple[str, str]]:
    references = (
        ("workspace", bindings.workspace, config.workspaces),
        ("model", bindings.llm, config.models),
        ("DM", bindings.dm, config.dms),
        ("voice profile", bindings.voice_profile, config.voice_profiles),
        ("git identity", bindings.git_identity, config.git_identities),
        ("Notion integration", bindings.notion, config.notion_integrations),
        ("email account", bindings.email, config.email_accounts),
    )
    return [
        (kind, name) for kind, name, names in references if name is not None and name not in names
    ]
