"""The eight verbs: the request model and the handler of each. Called by `door`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from choir_common.errors import BadInput
from choir_common.wire.model import Wire
from choir_common.wire.rpc import (
    Ack,
    ApprovalRequest,
    ConfigRequest,
    ConfigResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    HelloRequest,
    HelloResponse,
    HostToolRequest,
    SecretsRequest,
    SecretsResponse,
    StatusReport,
    TerminateRequest,
)
from choir_control.configuration.current import Configuration
from choir_control.eventlog.append import Appender
from choir_control.evolution.ask import Intake
from choir_control.hosttools.execute import HostTools
from choir_control.leases.store import Lease
from choir_control.secrets.vault import Vault
from choir_control.sessions.config_news import ConfigNews
from choir_control.sessions.hello import Greeting
from choir_control.sessions.reports import StatusBoard
from choir_control.sessions.stop import Stopper
from choir_control.sessions.vitals import Vitals

MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb's request model and handler."""

    takes: type[Wire]
    answer: Callable[[Lease, Any], Awaitable[Wire]]


@dataclass(frozen=True, slots=True)
class Verbs:
    """Implementation of the verbs with the services of other packages."""

    greeting: Greeting
    configuration: Configuration
    vault: Vault
    news: ConfigNews
    appender: Appender
    approvals: Intake
    board: StatusBoard
    stopper: Stopper
    vitals: Vitals
    hosttools: HostTools

    def table(self) -> dict[str, Verb]:
        """Return the eight verbs by name."""
        return {
            "INIT_HELLO": Verb(HelloRequest, self.greet),
            "GET_SECRETS": Verb(SecretsRequest, self.get_secrets),
            "HEARTBEAT": Verb(HeartbeatRequest, self.heartbeat),
            "REQUEST_APPROVAL": Verb(ApprovalRequest, self.approvals.request),
            "REPORT_STATUS": Verb(StatusReport, self.report_status),
            "TERMINATE_SELF": Verb(TerminateRequest, self.terminate_self),
            "FETCH_DYNAMIC_CONFIG": Verb(ConfigRequest, self.fetch_config),
            "EXECUTE_HOST_TOOL": Verb(HostToolRequest, self.hosttools.execute),
        }

    async def get_secrets(self, lease: Lease, request: SecretsRequest) -> SecretsResponse:
        """Return the secrets that the session's own resources need, and no others."""
        allowed = self.configuration.current.secret_names(lease.agent_id, lease.bindings)
        return SecretsResponse(secrets=self.vault.hand_out(request.resources, allowed))

    async def greet(self, lease: Lease, request: HelloRequest) -> HelloResponse:
        """Return what a starting agent needs to know."""
        with self.vitals.answering(lease.session_id, lease.epoch):
            return await self.greeting.greet(lease, request)

    async def heartbeat(self, lease: Lease, request: HeartbeatRequest) -> HeartbeatResponse:
        """Record the sign of life and make the events durable."""
        with self.vitals.answering(lease.session_id, lease.epoch):
            ack_rev = await self.appender.append(lease, request)
        self.vitals.beat(lease.session_id, lease.epoch)
        self.news.heard(lease, request.config_version)
        # An agent that missed the signal about a changed model detects the new version here.
        version = self.configuration.current.version_for(lease.settings_rev)
        return HeartbeatResponse(ack_rev=ack_rev, config_version_latest=version)

    async def report_status(self, lease: Lease, report: StatusReport) -> Ack:
        """Store the status report of a lane; raises BadInput for names that are too long."""
        texts = (report.lane, report.state, report.skill or "", report.step or "")
        if max(map(len, texts)) > MAX_NAME or len(report.budget_remaining) > MAX_NAME:
            raise BadInput(f"lane, state, skill and step take at most {MAX_NAME} characters each.")
        self.board.post(lease, report)
        return Ack()

    async def terminate_self(self, lease: Lease, request: TerminateRequest) -> Ack:
        """Close the session; its token is invalid when this returns."""
        await self.stopper.terminate(lease, request.reason)
        return Ack()

    async def fetch_config(self, lease: Lease, request: ConfigRequest) -> ConfigResponse:
        """Return the settings if the caller's version is not the current one."""
        snapshot = self.configuration.current
        version = snapshot.version_for(lease.settings_rev)
        newest = request.current_config_version == version
        settings = None if newest else snapshot.settings_for(lease.agent_id, lease.bindings)
        return ConfigResponse(config_version=version, config=settings)
