"""Wiring of the HTTP applications and their routers, and of the NATS endpoints."""

from collections.abc import Sequence

from fastapi import APIRouter

from choir_common.bus.client import Endpoint
from choir_common.clients.memory import (
    NatsCollectionsClient,
    NatsMemoryAdminClient,
    NatsSessionMemoryClient,
)
from choir_common.clock import SystemClock
from choir_control import VERSION
from choir_control.agents.sessions.handshake import HandshakeService
from choir_control.agents.sessions.predecessor_log import PredecessorLogReader
from choir_control.api.bus import make_bus_endpoints, make_mail_endpoint, make_pairing_endpoint
from choir_control.api.event_streams import LogStreamer
from choir_control.api.hooks import hook_routes, incoming_hook_routes, trigger_routes
from choir_control.api.http_apps import AgentEndpoints, make_agent_app, make_host_app
from choir_control.api.mcp.endpoint import McpEndpoint
from choir_control.api.mcp.readers import ClientReader
from choir_control.api.mcp.tools import AgentTools
from choir_control.api.openai.authentication import ConversationResolver
from choir_control.api.openai.routes import OpenAIEndpoints
from choir_control.api.openai.turns import TurnService
from choir_control.api.operator.agents import (
    agent_routes,
    choice_routes,
    model_test_routes,
    signal_routes,
)
from choir_control.api.operator.api_clients import client_routes
from choir_control.api.operator.approvals import approval_routes
from choir_control.api.operator.audit import audit_routes
from choir_control.api.operator.authentication import (
    CallerAuthentication,
    ConversationAuthentication,
    FileAuthentication,
    OperatorAuthentication,
    ProcessTree,
)
from choir_control.api.operator.collections import collection_routes
from choir_control.api.operator.cost import cost_routes
from choir_control.api.operator.forgetting import forget_routes
from choir_control.api.operator.history import history_routes
from choir_control.api.operator.jobs import job_routes
from choir_control.api.operator.memory import MemorySpaces, memory_routes
from choir_control.api.operator.operations import operation_routes, rollout_routes, workspace_routes
from choir_control.api.operator.people import people_routes
from choir_control.api.operator.persons import person_routes
from choir_control.api.operator.policy import policy_routes
from choir_control.api.operator.schedules import schedule_routes
from choir_control.api.operator.sessions import session_routes
from choir_control.api.operator.system import (
    command_routes,
    dm_routes,
    outbox_routes,
    status_routes,
)
from choir_control.api.operator.telegram import telegram_routes
from choir_control.api.operator.tools import tool_routes
from choir_control.api.operator.web import own_session_routes, sign_in_routes, web_routes
from choir_control.api.operator.web_push import push_routes
from choir_control.api.readiness import ReadinessChecks
from choir_control.api.rpc.rate_limits import SessionRateLimiter
from choir_control.api.rpc.verbs import AgentApi
from choir_control.conversations.history import ConversationHistoryReader
from choir_control.conversations.inbox.answer_store import AnswerStore
from choir_control.conversations.inbox.console import ConsoleInbox
from choir_control.conversations.job_states import JobStateReader
from choir_control.conversations.pairing.buttons import PairingButtons
from choir_control.log.eventlog.recovery_store import LogTailReader
from choir_control.wiring.openai import make_openai_handlers
from choir_control.wiring.services import ControlServices


class HttpServices:
    """The application of the agents' sockets, and that of the host endpoint."""

    def __init__(self, services: ControlServices) -> None:
        log = services.log
        self.readiness = ReadinessChecks(
            database=services.database,
            bus=services.bus,
            memory=services.host_tools.memory,
            browser=services.host_tools.browser,
            gateway=services.gateway.files,
            runtime=services.runtime,
            archives=log.archives,
            egress=services.egress,
        )
        endpoints = _make_agent_endpoints(services)
        web, openai, self.mcp = services.web, *_make_client_apis(services)
        callers = CallerAuthentication(
            operator_token=services.secrets.operator_token,
            processes=ProcessTree(),
            cookies=web.cookies,
        )
        operators = OperatorAuthentication(callers, web.sessions, web.limits)
        people = ConversationAuthentication(callers, web.sessions, web.limits)
        self.agent_app = make_agent_app(VERSION, self.readiness, endpoints)
        self.host_app = make_host_app(
            version=VERSION,
            readiness=self.readiness,
            endpoints=endpoints,
            authentication=operators,
            conversation_authentication=people,
            file_authentication=FileAuthentication(operators, services.secrets.gateway_token),
            gateway=services.gateway,
            console_inbox=ConsoleInbox(services.inbox, services.configuration),
            conversation_routers=_conversation_routers(services),
            routers=(
                *_system_routers(services, self.readiness),
                *_agent_routers(services),
                *_memory_routers(services),
                *services.config_changes.routes(),
            ),
            file_routes=outbox_routes(services.conversations.outgoing_files),
            signed_routes=incoming_hook_routes(services.triggers.hooks),
            sign_in_routes=sign_in_routes(web.sessions, web.cookies, web.origins),
            client_apis=(openai, self.mcp),
            metrics=log.control_metrics,
            secrets=services.secret_store,
        )


def _make_agent_endpoints(services: ControlServices) -> AgentEndpoints:
    log = services.log
    return AgentEndpoints(
        leases=log.leases,
        api=_make_agent_api(services),
        signal_streams=log.signal_streams,
        metrics=log.metrics,
        limits=SessionRateLimiter(SystemClock()),
    )


def _make_agent_api(services: ControlServices) -> AgentApi:
    sessions = services.sessions
    logs = LogTailReader(services.database, services.log.events)
    handshake = HandshakeService(
        sessions=sessions.store,
        logs=logs,
        predecessor_log=PredecessorLogReader(logs, services.log.resets),
        configuration=services.configuration,
        image_store=services.images.image_store,
    )
    return AgentApi(
        handshake=handshake,
        configuration=services.configuration,
        secrets=services.secret_store,
        egress=services.egress,
        config_versions=services.config_changes.versions,
        appender=services.log.appender,
        approvals=services.approvals.proposals.intake,
        lane_statuses=sessions.lane_statuses,
        activity=services.conversations.activity,
        stopper=sessions.stopper,
        liveness=sessions.liveness,
        host_tools=services.host_tools.executor,
    )


def _make_client_apis(services: ControlServices) -> tuple[OpenAIEndpoints, McpEndpoint]:
    """Return the APIs for clients with a token: that of OpenAI, and the MCP server."""
    clients = services.api_clients
    conversations = ConversationResolver(services.configuration)
    answers = AnswerStore(services.database)
    turns = TurnService(gateway=services.gateway, answers=answers, clients=clients)
    reader = ClientReader(
        configuration=services.configuration,
        memory=services.host_tools.memory,
        memory_tools=services.host_tools.memory_tools,
        modes=services.sessions.memory_modes,
        approvals=services.approvals.store,
    )
    mcp = McpEndpoint(
        tools=AgentTools(
            turns,
            clients,
            reader,
            jobs=services.make_job_requests(),
            job_states=JobStateReader(services.database),
        ),
        clients=clients,
        conversations=conversations,
        origins=services.web.origins,
    )
    handlers = make_openai_handlers(services, turns, conversations)
    return OpenAIEndpoints(clients, handlers), mcp


def _system_routers(services: ControlServices, readiness: ReadinessChecks) -> Sequence[APIRouter]:
    approvals = services.approvals
    return (
        status_routes(
            home=services.settings.home,
            version=VERSION,
            configuration=services.configuration,
            overview=services.overview,
            readiness=readiness,
            costs=services.money.costs,
            usage=services.sessions.usage,
        ),
        cost_routes(services.money.costs),
        schedule_routes(services.schedules.service),
        hook_routes(services.triggers.hooks),
        trigger_routes(services.triggers.overview),
        approval_routes(approvals.store, approvals.service, approvals.proposals.worker),
        command_routes(services.configuration),
        policy_routes(
            services.configuration, approvals.grants, services.hosts, services.money.costs
        ),
        person_routes(services.persons),
        people_routes(services.conversations.people, services.pairing),
        telegram_routes(services.telegram),
        client_routes(services.api_clients, services.web.origins, services.listener),
        web_routes(services.web.sessions, services.web.origins, services.listener),
        audit_routes(
            verifier=services.log.audit.verifier,
            store=services.log.audit.anchors,
            keys=services.log.audit.keys,
            keyring=services.log.audit.keyring,
        ),
    )


def _conversation_routers(services: ControlServices) -> Sequence[APIRouter]:
    """Return the routers that people use in their own conversations, too."""
    outbox = services.conversations.outbox_store
    return (
        dm_routes(
            configuration=services.configuration,
            sessions=services.sessions.store,
            conversations=services.sessions.conversation_store,
            memory_settings=services.log.memory_settings,
            outbox=outbox,
        ),
        history_routes(
            ConversationHistoryReader(services.database, outbox), services.configuration
        ),
        own_session_routes(services.web.sessions, services.web.cookies),
        push_routes(services.web.push.service, services.web.push.presence),
    )


def _agent_routers(services: ControlServices) -> Sequence[APIRouter]:
    sessions, events = services.sessions, services.log.events
    log_streams = LogStreamer(sessions.store, events, services.log.signal_streams)
    return (
        agent_routes(
            configuration=services.configuration,
            overview=services.overview,
            starter=sessions.starter,
            stopper=sessions.stopper,
        ),
        signal_routes(services.overview, sessions.signal_sender, events),
        job_routes(services.make_job_requests()),
        choice_routes(services.configuration, sessions.overrides, services.overview),
        model_test_routes(services.model_tests),
        session_routes(
            sessions=sessions.store,
            conversations=sessions.conversation_store,
            events=events,
            streams=log_streams,
            verifier=services.log.audit.verifier,
        ),
        operation_routes(services.operations),
        rollout_routes(services.rollout),
        tool_routes(services.make_tool_trials()),
        workspace_routes(sessions.workspaces),
    )


def _memory_routers(services: ControlServices) -> Sequence[APIRouter]:
    spaces = MemorySpaces(services.configuration, services.host_tools.memory_tools)
    return (
        memory_routes(
            spaces=spaces,
            search_client=services.host_tools.memory,
            admin_client=NatsMemoryAdminClient(services.bus),
            session_client=NatsSessionMemoryClient(services.bus),
            modes=services.sessions.memory_modes,
        ),
        forget_routes(services.sessions.forgetting, services.overview),
        collection_routes(
            spaces=spaces,
            collections_client=NatsCollectionsClient(services.bus),
            memory_client=services.host_tools.memory,
            redactor=services.redactor,
        ),
    )


def bus_endpoints(services: ControlServices) -> tuple[Endpoint, ...]:
    """Return the NATS endpoints."""
    conversations = services.conversations
    own = make_bus_endpoints(
        configuration=services.configuration,
        inbox=services.inbox,
        outbox=conversations.outbox_store,
        activity=conversations.activity,
        buttons=PairingButtons(
            services.pairing,
            approvals=services.approvals.buttons,
            configuration=services.configuration,
        ),
        gateway_lease=services.gateway_lease,
        bot_tokens=services.config_changes.bot_tokens,
        memory_prompts=services.images.memory_prompts,
        costs=services.money.costs,
        memory_budgets=services.money.memory_budgets(conversations.outbox),
    )
    return (
        *own,
        make_pairing_endpoint(services.pairing),
        make_mail_endpoint(services.triggers.mail),
    )
