"""Requests to `/embeddings`: vectors of texts, by the embedding model of this installation.

Not an agent's work: nothing is stored, and no conversation is involved.
"""

import array
import asyncio
import base64
import json
import sys
from typing import Any, Literal

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from choir_common.clients.memory import EMBEDDING_TIMEOUT_S, EmbeddingClient
from choir_common.errors import DeadlineExceeded, InvalidRequest, Unauthorized
from choir_common.wire.embeddings import MAX_EMBEDDED_CHARS, MAX_EMBEDDED_TEXTS, EmbedTexts
from choir_common.wire.money import ReserveMoney
from choir_common.wire.validation_messages import error_messages
from choir_control.api.openai.answers import CLIENT_CLOSED
from choir_control.api.openai.authentication import ConversationResolver
from choir_control.api.openai.chat_request import SHOWN
from choir_control.api_clients.service import NO_CLIENT, ApiClientService
from choir_control.configuration.api_clients import ApiClient
from choir_control.configuration.current import ConfigService
from choir_control.money.direct_calls import DirectCallBudgets

MAX_INPUTS = 2_048
"""Texts of a request, as OpenAI's."""
MAX_MODEL_CHARS = 200
MAX_REQUEST_S = 300.0
BYTES_PER_TOKEN = 2
"""A lower bound, for the money to reserve."""


class EmbeddingRequest(BaseModel):
    """The body of a request; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str = Field(max_length=MAX_MODEL_CHARS)
    input: str | tuple[Any, ...]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)

    def texts(self) -> tuple[str, ...]:
        """Return the texts; raises InvalidRequest."""
        texts = (self.input,) if isinstance(self.input, str) else self.input
        if not 0 < len(texts) <= MAX_INPUTS:
            raise InvalidRequest(f"input: send 1 to {MAX_INPUTS:,} texts in a request.")
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise InvalidRequest(
                    "input: send text. Token ids are those of another model's tokenizer (in LangChain, "
                    "set check_embedding_ctx_length=False)."
                )
            if not 0 < len(text) <= MAX_EMBEDDED_CHARS:
                raise InvalidRequest(
                    f"input[{number}]: a text has 1 to {MAX_EMBEDDED_CHARS:,} characters."
                )
        return texts


def parse_embedding_request(body: bytes) -> EmbeddingRequest:
    """Return the request; raises InvalidRequest."""
    try:
        return EmbeddingRequest.model_validate_json(body)
    except ValidationError as error:
        raise InvalidRequest("; ".join(error_messages(error, "body")[:SHOWN])) from None


class EmbeddingHandler:
    """Handler of the requests."""

    def __init__(
        self,
        *,
        clients: ApiClientService,
        conversations: ConversationResolver,
        memory: EmbeddingClient,
        configuration: ConfigService,
        budgets: DirectCallBudgets,
    ) -> None:
        self._clients = clients
        self._conversations = conversations
        self._memory = memory
        self._configuration = configuration
        self._budgets = budgets

    async def respond(self, request: Request) -> Response:
        """Return the vectors. Raises the errors of `EmbeddingClient.embed`, and BudgetExceeded."""
        client: ApiClient = request.state.client
        self._conversations.require_scope(client, "embeddings")
        with self._clients.admit(client):
            body = await asyncio.to_thread(parse_embedding_request, await request.body())
            texts = body.texts()
            reservation = await self._reserve(texts)
            try:
                async with asyncio.timeout(MAX_REQUEST_S):
                    answer = await self._embed(request, body, texts)
            except TimeoutError:
                raise DeadlineExceeded(
                    f"input: these texts take longer than {MAX_REQUEST_S:g} s; send fewer at once."
                ) from None
            finally:
                # memory's report, which follows within about a second, charges the call
                await self._budgets.release(reservation)
            return answer

    async def _embed(
        self, request: Request, body: EmbeddingRequest, texts: tuple[str, ...]
    ) -> Response:
        vectors: list[str] = []
        tokens = 0
        for begin in range(0, len(texts), MAX_EMBEDDED_TEXTS):
            if await request.is_disconnected():
                return Response(status_code=CLIENT_CLOSED)
            if not self._clients.is_valid(request.state.client):
                raise Unauthorized(NO_CLIENT)
            batch = EmbedTexts(
                model=body.model,
                texts=texts[begin : begin + MAX_EMBEDDED_TEXTS],
                dimensions=body.dimensions,
            )
            result = await self._memory.embed(batch)
            vectors += result.vectors
            tokens += result.tokens
        content = await asyncio.to_thread(_render, body, vectors, tokens)
        return Response(content, media_type="application/json")

    async def _reserve(self, texts: tuple[str, ...]) -> str:
        """Reserve the money of a call, if a provider is paid for it."""
        if self._configuration.current.config.embedding is None:
            return ""
        size = await asyncio.to_thread(
            lambda: sum(len(it.encode("utf-8", "replace")) for it in texts)
        )
        batches = -(-len(texts) // MAX_EMBEDDED_TEXTS)
        hold_s = min(MAX_REQUEST_S, batches * EMBEDDING_TIMEOUT_S) + EMBEDDING_TIMEOUT_S
        tokens = size // BYTES_PER_TOKEN + len(texts)
        call = ReserveMoney(kind="embedding", name="", prompt_tokens=tokens, hold_s=hold_s)
        return await self._budgets.reserve(call)


def _render(body: EmbeddingRequest, vectors: list[str], tokens: int) -> bytes:
    """Return the JSON of the answer; a thousand vectors as numbers take a second."""
    is_text = body.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": it if is_text else _numbers(it)}
        for index, it in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "data": data, "model": body.model, "usage": usage}
    return json.dumps(answer).encode()


def _numbers(vector: str) -> list[float]:
    numbers = array.array("f", base64.b64decode(vector))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
