"""The models that a client can use: its agents, the embedding model and the transcription models."""

import structlog

from choir_common.clients.memory import MemoryClient
from choir_common.errors import ChoirError, NotFound
from choir_control.api.openai.authentication import ConversationResolver
from choir_control.api.openai.chat_response import Model
from choir_control.api.openai.transcriber import TranscriptionService
from choir_control.configuration.api_clients import ApiClient

log = structlog.get_logger("choir.openai")


class ModelRegistry:
    """Registry of the models, by the scopes of a client."""

    def __init__(
        self,
        conversations: ConversationResolver,
        memory: MemoryClient,
        transcriptions: TranscriptionService,
    ) -> None:
        self._conversations = conversations
        self._memory = memory
        self._transcriptions = transcriptions

    async def list(self, client: ApiClient) -> tuple[Model, ...]:
        """Return the models, agents first. Without the memory service its model is missing."""
        names = [*self._conversations.list_agents(client)]
        if "embeddings" in client.scopes:
            try:
                names.append((await self._memory.status()).embedder)
            except ChoirError as error:
                # programs ask for the list at each start, and most of them want agents
                log.warning("embedding model not listed", error=error.message)
        if "transcriptions" in client.scopes:
            names += self._transcriptions.names()
        created = int(client.created_at.timestamp())
        return tuple(Model(id=it, created=created) for it in dict.fromkeys(names))

    async def show(self, client: ApiClient, name: str) -> Model:
        """Return one model; raises NotFound."""
        for model in await self.list(client):
            if model.id == name:
                return model
        raise NotFound(f"model: there is no model {name!r} for this client.")
