"""Wiring of the handlers of the OpenAI-compatible API."""

from choir_common.clients.memory import NatsEmbeddingClient
from choir_common.clock import SystemClock
from choir_control.api.openai.answers import AnswerHandler
from choir_control.api.openai.authentication import ConversationResolver
from choir_control.api.openai.embeddings import EmbeddingHandler
from choir_control.api.openai.models import ModelRegistry
from choir_control.api.openai.routes import OpenAIHandlers
from choir_control.api.openai.tool_calls import ToolCallExchange
from choir_control.api.openai.transcriber import TranscriptionService
from choir_control.api.openai.transcriptions import TranscriptionHandler
from choir_control.api.openai.turns import TurnService
from choir_control.money.direct_calls import DirectCallBudgets
from choir_control.wiring.services import ControlServices


def make_openai_handlers(
    services: ControlServices, turns: TurnService, conversations: ConversationResolver
) -> OpenAIHandlers:
    """Return the handlers."""
    clients, budgets = services.api_clients, DirectCallBudgets(services.money.budgets)
    transcriptions = TranscriptionService(
        configuration=services.configuration,
        secrets=services.secret_store,
        budgets=budgets,
        costs=services.money.costs,
        clock=SystemClock(),
    )
    return OpenAIHandlers(
        answers=AnswerHandler(
            turns,
            clients,
            conversations,
            calls=ToolCallExchange(services.host_tools.client_tools, turns),
        ),
        models=ModelRegistry(conversations, services.host_tools.memory, transcriptions),
        embeddings=EmbeddingHandler(
            clients=clients,
            conversations=conversations,
            memory=NatsEmbeddingClient(services.bus),
            configuration=services.configuration,
            budgets=budgets,
        ),
        transcriptions=TranscriptionHandler(clients, conversations, transcriptions),
    )
