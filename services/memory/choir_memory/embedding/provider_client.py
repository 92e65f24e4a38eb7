"""HTTP client for an OpenAI-compatible `/embeddings` endpoint.

Import it only when the first vector is needed, because importing aiohttp takes 0.1 s. The openai SDK is not
used: it needs six times the CPU per request, and every search makes one (docs/decisions/0042).
"""

import asyncio
import sys
from array import array
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import SimpleNamespace
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import orjson
from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    TraceConfig,
    TraceRequestChunkSentParams,
)
from pydantic import BaseModel, ConfigDict, TypeAdapter

from choir_common.errors import (
    ChoirError,
    DeadlineExceeded,
    InvalidRequest,
    RateLimited,
    Unavailable,
)
from choir_common.i18n import _
from choir_memory.embedding.embedder import MAX_RETRY_AFTER_S, Vector
from choir_memory.usage.reporter import UsageReporter

TEXT_REJECTED_STATUSES = frozenset({400, 413, 422})
DEFAULT_WAIT_S = 1.0
FIRST_ERROR_STATUS = 400
JSON = {"Content-Type": "application/json"}


class _EmbeddingItem(BaseModel):
    model_config = ConfigDict(extra="ignore")

    index: int
    embedding: list[float] | str


class _EmbeddingUsage(BaseModel):
    model_config = ConfigDict(extra="ignore")

    prompt_tokens: int | None = None
    total_tokens: int | None = None


class _EmbeddingsResponse(BaseModel):
    model_config = ConfigDict(extra="ignore")

    data: list[_EmbeddingItem]
    usage: _EmbeddingUsage | None = None


_ANSWER = TypeAdapter(_EmbeddingsResponse)


class ProviderClient:
    """One HTTP client for one provider; call `close` after use."""

    def __init__(
        self, endpoint: str, key: str | None, *, timeout_s: float, usage: UsageReporter
    ) -> None:
        self._usage = usage
        # base64 is ten times faster to parse than numbers; None until it is known whether the server
        # supports it
        self._compact: bool | None = None
        self._url = f"{endpoint.rstrip('/')}/embeddings"
        trace = TraceConfig()
        trace.on_request_chunk_sent.append(_note_sent)
        self._session = ClientSession(
            headers={**JSON, "Authorization": f"Bearer {key}"} if key else JSON,
            timeout=ClientTimeout(total=timeout_s),
            # with it aiohttp reads .netrc and the environment in a thread, twice for each request
            trust_env=_uses_proxy(self._url),
            trace_configs=[trace],
        )

    async def embeddings(
        self, model: str, texts: Sequence[str], dimensions: int | None
    ) -> list[Vector]:
        """Return the vectors in the order of `texts`; without `dimensions`, in the model's default length.

        Raises InvalidRequest when the texts are rejected, otherwise Unavailable, RateLimited or
        DeadlineExceeded. Error messages do not quote the provider's response, which may quote the text.
        """
        body: dict[str, object] = {"model": model, "input": list(texts)}
        if dimensions is not None:
            body["dimensions"] = dimensions
        if self._compact is False:
            return await self._post(body, texts)
        try:
            vectors = await self._post({**body, "encoding_format": "base64"}, texts)
        except InvalidRequest:
            if self._compact:
                raise
            vectors = await self._post(body, texts)
            self._compact = False
            return vectors
        self._compact = True
        return vectors

    async def _post(self, body: dict[str, object], texts: Sequence[str]) -> list[Vector]:
        sent: list[bytes] = []
        data = orjson.dumps(body)
        try:
            async with self._session.post(self._url, data=data, trace_request_ctx=sent) as response:
                if response.status >= FIRST_ERROR_STATUS:
                    raise _as_choir(response)
                answer = _ANSWER.validate_python(orjson.loads(await response.read()))
            used = answer.usage or _EmbeddingUsage()
            self._usage.add_embedding(
                str(body["model"]), texts, used.prompt_tokens or used.total_tokens
            )
            items = sorted(answer.data, key=lambda item: item.index)
            return [_numbers(item.embedding) for item in items]
        except asyncio.CancelledError:
            self._estimate(body, texts, sent)
            raise
        except TimeoutError as error:
            self._estimate(body, texts, sent)
            raise DeadlineExceeded(_("The embedding provider did not answer in time.")) from error
        except (ClientError, OSError) as error:
            raise Unavailable(_("The embedding provider cannot be reached.")) from error
        except ValueError as error:  # invalid JSON, base64 or shape
            raise Unavailable(_("The embedding provider's response cannot be parsed.")) from error

    def _estimate(self, body: dict[str, object], texts: Sequence[str], sent: list[bytes]) -> None:
        """Report an estimate of a request that nobody waits for any more: the provider bills it."""
        if sent:
            self._usage.add_embedding(str(body["model"]), texts, None)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


async def _note_sent(
    _session: ClientSession, context: SimpleNamespace, part: TraceRequestChunkSentParams
) -> None:
    context.trace_request_ctx.append(part.chunk)


def _uses_proxy(url: str) -> bool:
    """Return whether the environment names a proxy for this address."""
    address = urlsplit(url)
    return address.scheme in getproxies() and not proxy_bypass(address.hostname or "")


def _as_choir(response: ClientResponse) -> ChoirError:
    match response.status:
        case 429:
            wait_s = _wait_s(response.headers.get("Retry-After", ""))
            return RateLimited(
                _("The embedding provider's rate limit is exceeded (HTTP 429)."),
                retry_after_s=wait_s,
            )
        case status if status in TEXT_REJECTED_STATUSES:
            return InvalidRequest(
                _("The embedding provider rejects the text (HTTP {status}).").format(status=status)
            )
        case 401 | 403 as status:
            return Unavailable(
                _(
                    "The embedding provider refuses the key (HTTP {status}); check the secret embedding_key."
                ).format(status=status)
            )
        case status:
            return Unavailable(
                _("The embedding provider failed (HTTP {status}).").format(status=status)
            )


def _numbers(embedding: list[float] | str) -> Vector:
    """Return a vector from a list, or from base64 of little-endian 32-bit floats."""
    if not isinstance(embedding, str):
        return embedding
    numbers = array("f", b64decode(embedding, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _wait_s(header: str) -> float:
    """Return the delay in seconds from Retry-After, which is a number or a date (RFC 9110)."""
    try:
        wait_s = float(header)
    except ValueError:
        try:
            until = parsedate_to_datetime(header)
        except ValueError:
            return DEFAULT_WAIT_S
        # a date without a zone is taken as UTC
        wait_s = (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)
