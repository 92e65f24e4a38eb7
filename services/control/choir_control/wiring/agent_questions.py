"""Wiring of questions between agents."""

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_common.redactor import Redactor
from choir_common.wire.messages import InboundMessage
from choir_control.configuration.current import ConfigService
from choir_control.conversations.agent_questions.service import AgentQuestionService
from choir_control.conversations.agent_questions.store import QuestionStore
from choir_control.conversations.inbox.service import CommandResult, InboxService
from choir_control.conversations.inbox.store import InboxStore
from choir_control.log.signals.store import SignalStore
from choir_control.wiring.log import LogServices


class EmptyExecutor:
    """Executor for messages that are never commands: agents have no rights to execute any."""

    async def handle(self, message: InboundMessage) -> CommandResult | None:
        """Return None."""
        return None


class EmptyLanguages:
    """Agents have no app that says a language."""

    async def note_app(self, dm: str, tag: str) -> None:
        """Do nothing."""


def make_question_service(
    *,
    database: Database,
    configuration: ConfigService,
    inbox_store: InboxStore,
    log: LogServices,
    redactor: Redactor,
    clock: Clock,
) -> AgentQuestionService:
    """Return the service, with an inbox of its own that executes no commands."""
    inbox = InboxService(
        inbox_store,
        configuration=configuration,
        commands=EmptyExecutor(),
        languages=EmptyLanguages(),
        notifier=log.notifier,
        signal_locks=log.signal_locks,
        redactor=redactor,
    )
    return AgentQuestionService(
        QuestionStore(database),
        configuration=configuration,
        inbox=inbox,
        inbox_store=inbox_store,
        signals=SignalStore(database),
        signal_locks=log.signal_locks,
        notifier=log.notifier,
        clock=clock,
    )
