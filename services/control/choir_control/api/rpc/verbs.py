"""The eight verbs: the request model and the handler of each."""

from dataclasses import dataclass
from typing import Any, Protocol

from choir_common.errors import InvalidRequest
from choir_common.wire.model import WireModel
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
    StatusRequest,
    TerminateRequest,
)
from choir_control.agents.egress_registry import EgressRegistry
from choir_control.agents.host_tools.execute import HostToolExecutor
from choir_control.agents.sessions.config_propagation import ConfigVersionTracker
from choir_control.agents.sessions.handshake import HandshakeService
from choir_control.agents.sessions.liveness import LivenessTracker
from choir_control.agents.sessions.reports import LaneStatusRegistry
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.approvals.proposals.proposal_type import ApprovalIntake
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore
from choir_control.conversations.activity.publisher import ActivityPublisher
from choir_control.log.eventlog.append import EventAppender
from choir_control.log.leases.store import Lease

MAX_NAME = 200


class VerbHandler(Protocol):
    """Method that answers a verb's requests; `request` has the type that the table names."""

    async def __call__(self, lease: Lease, request: Any, /) -> WireModel: ...


@dataclass(frozen=True, slots=True)
class RpcVerb:
    """A verb's request model and handler."""

    takes: type[WireModel]
    answer: VerbHandler


@dataclass(frozen=True, slots=True)
class AgentApi:
    """Implementation of the verbs with the services of other packages."""

    handshake: HandshakeService
    configuration: ConfigService
    secrets: SecretStore
    egress: EgressRegistry
    config_versions: ConfigVersionTracker
    appender: EventAppender
    approvals: ApprovalIntake
    lane_statuses: LaneStatusRegistry
    activity: ActivityPublisher
    stopper: SessionStopper
    liveness: LivenessTracker
    host_tools: HostToolExecutor

    def table(self) -> dict[str, RpcVerb]:
        """Return the eight verbs by name."""
        return {
            "INIT_HELLO": RpcVerb(HelloRequest, self.greet),
            "GET_SECRETS": RpcVerb(SecretsRequest, self.get_secrets),
            "HEARTBEAT": RpcVerb(HeartbeatRequest, self.heartbeat),
            "REQUEST_APPROVAL": RpcVerb(ApprovalRequest, self.approvals.request),
            "REPORT_STATUS": RpcVerb(StatusRequest, self.report_status),
            "TERMINATE_SELF": RpcVerb(TerminateRequest, self.terminate_self),
            "FETCH_DYNAMIC_CONFIG": RpcVerb(ConfigRequest, self.fetch_config),
            "EXECUTE_HOST_TOOL": RpcVerb(HostToolRequest, self.host_tools.execute),
        }

    async def get_secrets(self, lease: Lease, request: SecretsRequest) -> SecretsResponse:
        """Return the secrets that the session's own resources need, and no others.

        Keys that the egress proxy adds are returned as placeholders.
        """
        allowed = self.configuration.current.secret_names(lease.agent_id, lease.bindings)
        values = self.secrets.get_allowed(request.resources, allowed)
        return SecretsResponse(
            secrets=await self.egress.replace_keys(lease.agent_id, lease.bindings, values)
        )

    async def greet(self, lease: Lease, request: HelloRequest) -> HelloResponse:
        """Return what a starting agent needs to know."""
        with self.liveness.answering(lease.session_id, lease.epoch):
            return await self.handshake.greet(lease, request)

    async def heartbeat(self, lease: Lease, request: HeartbeatRequest) -> HeartbeatResponse:
        """Record the sign of life and make the events durable."""
        with self.liveness.answering(lease.session_id, lease.epoch):
            ack_rev = await self.appender.append(lease, request)
        self.liveness.beat(lease.session_id, lease.epoch)
        self.config_versions.record_version(lease, request.config_version)
        # An agent that missed the signal about a changed model detects the new version here.
        version = self.configuration.current.version_for(lease.settings_rev)
        return HeartbeatResponse(ack_rev=ack_rev, config_version_latest=version)

    async def report_status(self, lease: Lease, report: StatusRequest) -> Ack:
        """Store the status report of a lane, or show the draft of its reply.

        Raises InvalidRequest for names that are too long.
        """
        if report.draft is not None:
            self.activity.note_draft(lease, report.lane, report.draft)
            return Ack()
        texts = (report.lane, report.state, report.skill or "", report.step or "")
        if max(map(len, texts)) > MAX_NAME or len(report.budget_remaining) > MAX_NAME:
            raise InvalidRequest(
                f"lane, state, skill and step take at most {MAX_NAME} characters each."
            )
        self.lane_statuses.post(lease, report)
        return Ack()

    async def terminate_self(self, lease: Lease, request: TerminateRequest) -> Ack:
        """Close the session; its token is invalid when this returns."""
        await self.stopper.terminate(lease, request.reason)
        return Ack()

    async def fetch_config(self, lease: Lease, request: ConfigRequest) -> ConfigResponse:
        """Return the settings if the caller's version is not the current one."""
        snapshot = self.configuration.current
        version = snapshot.version_for(lease.settings_rev)
        is_current = request.current_config_version == version
        settings = (
            None
            if is_current
            else snapshot.settings_for(lease.agent_id, lease.bindings, lease.bound_dms)
        )
        return ConfigResponse(config_version=version, config=settings)
