"""Construction of all services of control. No I/O happens here; `ControlApp` opens and runs them."""

import os

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsSessionMemoryClient
from choir_common.clock import Clock
from choir_common.http.client import make_client
from choir_common.metrics import Metrics
from choir_common.postgres.pool import Database
from choir_common.stack_secrets import RESERVED_SECRETS
from choir_common.telemetry import Redactor
from choir_control.agents.egress_registry import EgressRegistry
from choir_control.agents.erasure.person_eraser import PersonEraser
from choir_control.agents.erasure.person_store import PersonStore
from choir_control.agents.host_store import HostStore
from choir_control.agents.model_tests import ModelTestService
from choir_control.agents.operations.service import OperationService
from choir_control.agents.operations.store import OperationStore
from choir_control.agents.rollout.service import AgentRedeployer, UpdateService
from choir_control.agents.rollout.update import AgentUpdater
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.sessions.launch import LaunchImageResolver
from choir_control.agents.sessions.record import CONTINUED_REASONS
from choir_control.agents.sessions.tool_trials import ToolTrialService
from choir_control.api.http_apps import AgentSockets
from choir_control.api.transports.listener import TcpListener
from choir_control.api_clients.service import ApiClientService
from choir_control.api_clients.store import ApiClientStore
from choir_control.approvals.grant_store import GrantStore
from choir_control.approvals.proposals.config_proposal import ConfigApplier
from choir_control.approvals.store import ApprovalStore
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore
from choir_control.configuration.version_store import ConfigVersionStore
from choir_control.conversations.agent_questions.service import AgentQuestionService
from choir_control.conversations.commands.context import BackgroundCommands, CommandContext
from choir_control.conversations.commands.dialogue import DialogueState
from choir_control.conversations.commands.handler import CommandHandler
from choir_control.conversations.gateway_lease import GatewayAddress, GatewayLease
from choir_control.conversations.gateway_lease_store import GatewayLeaseStore
from choir_control.conversations.inbox.service import InboxService
from choir_control.conversations.job_requests import JobRequests
from choir_control.conversations.outbox.notices import NoticeSender
from choir_control.conversations.pairing.service import PairingService
from choir_control.conversations.pairing.store import PairingStore
from choir_control.conversations.session_overview import AgentOverview
from choir_control.conversations.telegram.service import TelegramConnector
from choir_control.leadership.leadership import Leadership
from choir_control.leadership.lock_store import LeaderLock
from choir_control.settings import ControlSecrets, ControlSettings
from choir_control.wiring.agent_questions import make_question_service
from choir_control.wiring.approvals import ApprovalServices, ProposalServices
from choir_control.wiring.configuration import ConfigurationServices
from choir_control.wiring.conversations import ConversationServices
from choir_control.wiring.gateway import make_gateway_clients
from choir_control.wiring.images import ImageServices
from choir_control.wiring.log import LogServices
from choir_control.wiring.money import MoneyServices
from choir_control.wiring.schedules import ScheduleServices
from choir_control.wiring.sessions import HostToolServices, SessionServices
from choir_control.wiring.telegram import make_telegram_connector
from choir_control.wiring.triggers import TriggerServices
from choir_control.wiring.web import WebServices

SERVICE = "choir-control"


def _make_database(
    settings: ControlSettings, secrets: ControlSecrets
) -> tuple[Leadership, Database]:
    """Return who decides whether this process leads, and the database, which only the leader may use."""
    address = settings.database_address(secrets)
    lock = LeaderLock(
        Database(*address, size=1, application=SERVICE),
        service=SERVICE,
        silence_s=settings.leader_silence_s,
    )
    leadership = Leadership(lock)
    size = settings.database_connections
    return leadership, Database(*address, size=size, application=SERVICE, setup=leadership)


class ControlServices:
    """All services of control, in the order in which they depend on each other."""

    def __init__(
        self,
        *,
        settings: ControlSettings,
        secrets: ControlSecrets,
        runtime: AgentRuntime,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self.settings = settings
        self.secrets = secrets
        self.runtime = runtime
        self.redactor = redactor
        self._clock = clock
        self.leadership, self.database = _make_database(settings, secrets)
        self.bus = Bus(settings.nats_url, secrets.nats_key, "control")
        route = GatewayAddress()
        self.gateway = make_gateway_clients(settings, secrets, route)
        self.listener = TcpListener(settings)
        self.agent_sockets = AgentSockets(settings)
        self.secret_store = _make_secret_store(secrets, redactor)
        self.configuration = ConfigService(
            settings.config_file, settings.default_model, ConfigVersionStore(self.database)
        )
        self.hosts = HostStore(self.database)
        self.egress = self._make_egress()
        self._metrics = Metrics(SERVICE)
        self.money = self._make_money()
        self.model_tests = self._make_model_tests()
        self.web = self._make_web()
        self.conversations = self._make_conversations()
        self.gateway_lease = self._make_gateway_lease(route)
        self.log = self._make_log()
        self.schedules = self._make_schedules()
        self.triggers = self._make_triggers()
        self.host_tools = self._make_host_tools()
        self.images = self._make_images()
        self.operations = self._make_operations()
        self.sessions = self._make_sessions()
        self.config_changes = self._make_config_changes()
        self.pairing = self._make_pairing()
        self.api_clients = self._make_api_clients()
        self.persons = self._make_person_eraser()
        self.telegram = self._make_telegram_connector()
        self.rollout = self._make_rollout()
        self.approvals = self._make_approvals()
        self.overview = self._make_overview()
        self.inbox = self._make_inbox()

    def _make_egress(self) -> EgressRegistry:
        address = self.settings.egress_address
        headers, certificate = _bearer(self.secrets.egress_token), self.secrets.egress_certificate
        client = make_client(address, headers=headers, ca_pem=certificate) if address else None
        return EgressRegistry(
            client=client,
            configuration=self.configuration,
            hosts=self.hosts,
            listener=self.listener,
            otlp_endpoint=self.settings.otlp_endpoint or "",
            secrets=self.secret_store,
        )

    def _make_money(self) -> MoneyServices:
        return MoneyServices(
            database=self.database,
            configuration=self.configuration,
            clock=self._clock,
            metrics=self._metrics,
        )

    def _make_model_tests(self) -> ModelTestService:
        return ModelTestService(
            configuration=self.configuration,
            secrets=self.secret_store,
            budgets=self.money.budgets,
            costs=self.money.costs,
            redactor=self.redactor,
        )

    def _make_conversations(self) -> ConversationServices:
        return ConversationServices(
            home=self.settings.home,
            database=self.database,
            configuration=self.configuration,
            bus=self.bus,
            gateway=self.gateway.files,
            observer=self.web.push.notifier,
            clock=self._clock,
        )

    def _make_gateway_lease(self, route: GatewayAddress) -> GatewayLease:
        return GatewayLease(
            GatewayLeaseStore(self.database),
            gateway=self.conversations.gateway,
            route=route,
            bus=self.bus,
            clock=self._clock,
        )

    def _make_log(self) -> LogServices:
        return LogServices(
            metrics=self._metrics,
            database=self.database,
            configuration=self.configuration,
            bus=self.bus,
            conversations=self.conversations,
            money=self.money,
            restart_reasons=CONTINUED_REASONS,
            key_file=self.settings.audit_keys,
        )

    def _make_schedules(self) -> ScheduleServices:
        return ScheduleServices(
            database=self.database,
            configuration=self.configuration,
            outbox=self.conversations.outbox,
            log=self.log,
            redactor=self.redactor,
            clock=self._clock,
        )

    def _make_triggers(self) -> TriggerServices:
        return TriggerServices(
            database=self.database,
            configuration=self.configuration,
            secrets=self.secret_store,
            log=self.log,
            redactor=self.redactor,
            clock=self._clock,
        )

    def _make_questions(self) -> AgentQuestionService:
        return make_question_service(
            database=self.database,
            configuration=self.configuration,
            inbox_store=self.conversations.inbox_store,
            log=self.log,
            redactor=self.redactor,
            clock=self._clock,
        )

    def _make_images(self) -> ImageServices:
        return ImageServices(
            settings=self.settings, configuration=self.configuration, secrets=self.secret_store
        )

    def _make_host_tools(self) -> HostToolServices:
        return HostToolServices(
            settings=self.settings,
            configuration=self.configuration,
            database=self.database,
            bus=self.bus,
            redactor=self.redactor,
            money=self.money,
            schedules=self.schedules.tools,
            questions=self._make_questions(),
        )

    def _make_operations(self) -> OperationService:
        return OperationService(
            store=OperationStore(self.database),
            outbox=self.conversations.outbox,
            cards=self.conversations.activity,
        )

    def _make_sessions(self) -> SessionServices:
        return SessionServices(
            settings=self.settings,
            database=self.database,
            configuration=self.configuration,
            runtime=self.runtime,
            log=self.log,
            image_resolver=LaunchImageResolver(
                home=self.settings.home,
                configuration=self.configuration,
                image_store=self.images.image_store,
                builder=self.images.builder,
            ),
            operations=self.operations,
            outbox=self.conversations.outbox,
            browse_tool=self.host_tools.browse_tool,
            memory_tools=self.host_tools.memory_tools,
            memory_admin=self.host_tools.memory_admin,
            listener=self.listener,
            egress=self.egress,
            clock=self._clock,
        )

    def _make_person_eraser(self) -> PersonEraser:
        return PersonEraser(
            store=PersonStore(self.database),
            sessions=self.sessions.store,
            starter=self.sessions.starter,
            stopper=self.sessions.stopper,
            resets=self.log.resets,
            content_eraser=self.log.content_eraser,
            session_memory=NatsSessionMemoryClient(self.bus),
            memory=self.host_tools.memory_admin,
            gateway=self.conversations.gateway,
            operations=self.operations,
            configuration=self.configuration,
            paired=self.pairing,
            accesses=(self.web.sessions, self.api_clients),
            keyring=self.log.audit.keyring,
            clock=self._clock,
        )

    def _make_config_changes(self) -> ConfigurationServices:
        return ConfigurationServices(
            configuration=self.configuration,
            secrets=self.secret_store,
            secrets_json=self.settings.secrets_json,
            deployment_secrets=self.secrets.supplied,
            sessions=self.sessions.store,
            conversations=self.sessions.conversations,
            log=self.log,
            bus=self.bus,
            clock=self._clock,
            gateway=self.gateway.files,
            certificates=self.listener,
            sockets=self.agent_sockets,
            images=self.images,
            redactor=self.redactor,
        )

    def _make_pairing(self) -> PairingService:
        return PairingService(
            PairingStore(self.database),
            configuration=self.configuration,
            versions=self.config_changes.versions,
            conversations=self.sessions.conversations,
            notices=NoticeSender(self.database, self.conversations.outbox, self.configuration),
            clock=self._clock,
        )

    def _make_api_clients(self) -> ApiClientService:
        return ApiClientService(
            ApiClientStore(self.database),
            configuration=self.configuration,
            versions=self.config_changes.versions,
            conversations=self.sessions.conversations,
            clock=self._clock,
        )

    def _make_telegram_connector(self) -> TelegramConnector:
        return make_telegram_connector(
            config_file=self.settings.config_file,
            secrets_json=self.settings.secrets_json,
            database=self.database,
            gateway=self.gateway.files,
            configuration=self.configuration,
            config_changes=self.config_changes,
            sessions=self.sessions,
            outbox=self.conversations.outbox,
            redactor=self.redactor,
            clock=self._clock,
        )

    def _make_rollout(self) -> UpdateService:
        updater = AgentUpdater(
            configuration=self.configuration,
            build_service=self.images.build_service,
            image_store=self.images.image_store,
            sessions=self.sessions.store,
            starter=self.sessions.starter,
            stopper=self.sessions.stopper,
        )
        return UpdateService(self.configuration, updater, self.operations)

    def make_tool_trials(self) -> ToolTrialService:
        """Return the service that runs single calls of tools for operators."""
        return ToolTrialService(
            settings=self.settings,
            configuration=self.configuration,
            build_service=self.images.build_service,
            tools=self.images.tool_checker,
            runtime=self.runtime,
            egress=self.egress,
        )

    def _make_approvals(self) -> ApprovalServices:
        store = ApprovalStore(self.database, self.configuration)
        proposals = ProposalServices(
            home=self.settings.home,
            config_file=self.settings.config_file,
            environment=os.environ,
            database=self.database,
            configuration=self.configuration,
            approvals=store,
            clock=self._clock,
            signal_locks=self.log.signal_locks,
            notifier=self.log.notifier,
            outbox=self.conversations.outbox,
            config_applier=ConfigApplier(self.config_changes.staging),
            redeployer=AgentRedeployer(self.rollout, self.operations),
            credentials=self.images.credentials,
        )
        return ApprovalServices(
            store,
            grants=GrantStore(self.database),
            proposals=proposals,
            configuration=self.configuration,
            clock=self._clock,
            signal_locks=self.log.signal_locks,
            notifier=self.log.notifier,
            outbox=self.conversations.outbox,
            metrics=self.log.control_metrics,
            call_results=self.log.call_results,
        )

    def _make_overview(self) -> AgentOverview:
        return AgentOverview(
            configuration=self.configuration,
            sessions=self.sessions.store,
            inbox=self.conversations.inbox_store,
            lane_statuses=self.sessions.lane_statuses,
            runtime=self.runtime,
            liveness=self.sessions.liveness,
            config_versions=self.config_changes.versions,
            memory_settings=self.log.memory_settings,
            conversations=self.sessions.conversation_store,
            reconciler=self.sessions.conversations,
        )

    def _make_command_context(self) -> CommandContext:
        sessions = self.sessions
        return CommandContext(
            configuration=self.configuration,
            staging=self.config_changes.staging,
            secrets=self.secret_store,
            overview=self.overview,
            starter=sessions.starter,
            stopper=sessions.stopper,
            session_settings=sessions.overrides,
            memory_modes=sessions.memory_modes,
            sessions=sessions.store,
            events=self.log.events,
            conversations=sessions.conversation_store,
            approvals=self.approvals.store,
            approval_service=self.approvals.service,
            grants=self.approvals.grants,
            outbox=self.conversations.outbox_store,
            rollout=self.rollout,
            operations=self.operations,
            workspaces=sessions.workspaces,
            forgetting=sessions.forgetting,
            costs=self.money.costs,
            schedules=self.schedules.service,
            people=self.conversations.people,
            following=self.conversations.following,
            languages=self.conversations.languages,
            pairing=self.pairing,
            background=BackgroundCommands(self.operations),
            dialogue=DialogueState(),
        )

    def _make_web(self) -> WebServices:
        return WebServices(
            settings=self.settings,
            database=self.database,
            configuration=self.configuration,
            operator_token=self.secrets.operator_token,
            clock=self._clock,
        )

    def make_job_requests(self) -> JobRequests:
        """Return the service that starts core jobs for people and programs."""
        return JobRequests(
            self.conversations.inbox_store,
            configuration=self.configuration,
            overview=self.overview,
            notifier=self.log.notifier,
            signal_locks=self.log.signal_locks,
            redactor=self.redactor,
            clock=self._clock,
        )

    def _make_inbox(self) -> InboxService:
        store, log = self.conversations.inbox_store, self.log
        commands = CommandHandler(
            store,
            context=self._make_command_context(),
            notifier=log.notifier,
            signal_locks=log.signal_locks,
        )
        return InboxService(
            store,
            configuration=self.configuration,
            commands=commands,
            languages=self.conversations.languages,
            notifier=log.notifier,
            signal_locks=log.signal_locks,
            redactor=self.redactor,
        )


def _make_secret_store(secrets: ControlSecrets, redactor: Redactor) -> SecretStore:
    own_secrets = {k: v for k, v in secrets.secrets.items() if k not in RESERVED_SECRETS}
    return SecretStore({**own_secrets, **secrets.supplied}, redactor)


def _bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
