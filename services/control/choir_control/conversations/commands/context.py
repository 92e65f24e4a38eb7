"""The services that command functions call, and background execution of slow commands.

A channel waits seconds for its acknowledgement; an agent
may take minutes to stop. The conversation then gets the result later. Each command runs as an operation,
so that one interrupted by the end of choird is reported, too.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from choir_common.errors import ChoirError
from choir_common.i18n import _
from choir_common.wire.model import WireModel
from choir_control.agents.operations.progress import OperationProgress
from choir_control.agents.operations.service import OperationService
from choir_control.agents.operations.store import Requester
from choir_control.agents.rollout.config_staging import ConfigStaging
from choir_control.agents.rollout.service import UpdateService
from choir_control.agents.sessions.forgetting import ForgetService
from choir_control.agents.sessions.memory_modes import MemoryModeService
from choir_control.agents.sessions.overrides import SessionOverrides
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.agents.sessions.workspace_reset import WorkspaceService
from choir_control.approvals.grant_store import GrantStore
from choir_control.approvals.service import ApprovalService
from choir_control.approvals.store import ApprovalStore
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore
from choir_control.conversations.commands.dialogue import DialogueState
from choir_control.conversations.commands.error_texts import error_text
from choir_control.conversations.outbox.store import OutboxStore
from choir_control.conversations.pairing.service import PairingService
from choir_control.conversations.people.following import Following
from choir_control.conversations.people.languages import UserLanguages
from choir_control.conversations.people.service import PersonLinks
from choir_control.conversations.schedules.service import ScheduleService
from choir_control.conversations.session_overview import AgentOverview
from choir_control.log.eventlog.store import EventStore
from choir_control.log.leases.conversations import ConversationStore
from choir_control.money.costs import CostService

# the gateway waits five seconds for an acknowledgement
ACKNOWLEDGE_WITHIN_S = 3.0
RESULT_FOLLOWS = _("The result will be reported here.")
CommandTask = Callable[[], Awaitable[str]]


class BackgroundCommands:
    """Runs the work of commands as operations."""

    def __init__(self, operations: OperationService) -> None:
        self._operations = operations

    async def run(self, asker: Requester, kind: str, subject: str, work: CommandTask) -> str | None:
        """Start the work and wait a short time for its result text; None if it is still running then.

        Raises RateLimited while too many operations run.
        """

        texts: list[str] = []  # the view of an operation has no messages, only their English texts

        async def run_task(progress: OperationProgress) -> WireModel | None:
            try:
                progress.outcome = await work()
            except ChoirError as error:
                texts.append(error_text(error))
                raise
            texts.append(progress.outcome)
            return None

        operation_id = await self._operations.begin(kind, subject, frozenset(), run_task)
        view = await self._operations.wait_or_notify_later(
            operation_id, ACKNOWLEDGE_WITHIN_S, asker
        )
        if view is None:
            return None
        return texts[0] if texts else view.error or view.step


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The services that commands call; the operator API uses the same ones."""

    configuration: ConfigService
    staging: ConfigStaging
    secrets: SecretStore
    overview: AgentOverview
    starter: SessionStarter
    stopper: SessionStopper
    session_settings: SessionOverrides
    memory_modes: MemoryModeService
    sessions: SessionStore
    events: EventStore
    conversations: ConversationStore
    approvals: ApprovalStore
    approval_service: ApprovalService
    grants: GrantStore
    outbox: OutboxStore
    rollout: UpdateService
    operations: OperationService
    workspaces: WorkspaceService
    forgetting: ForgetService
    costs: CostService
    schedules: ScheduleService
    people: PersonLinks
    following: Following
    languages: UserLanguages
    pairing: PairingService
    background: BackgroundCommands
    dialogue: DialogueState
