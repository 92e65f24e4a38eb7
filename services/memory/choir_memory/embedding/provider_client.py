"""Speak to an OpenAI-compatible `/embeddings` through the openai SDK.

Imported by `provider` alone and only when the first vector is needed: the SDK takes 0.3 s and 16 MB.
Its own raw `.post()` is used, because its typed calls cost several times the request.
"""

import sys
from array import array
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    RateLimitError,
)
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from choir_common.errors import BadInput, ChoirError, DeadlineExceeded, RateLimited, Unavailable
from choir_memory.embedding.port import LONGEST_WAIT_S, Vector

REFUSED_TEXT = frozenset({400, 413, 422})
DEFAULT_WAIT_S = 1.0


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore")

    index: int
    embedding: list[float] | str


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    data: list[_Item]


_ANSWER = TypeAdapter(_Answer)


class ProviderClient:
    """One HTTP client to one provider; close it after use."""

    def __init__(self, endpoint: str, key: str | None, timeout_s: float) -> None:
        # numbers as text take ten times as long to read; a server that knows no base64 is asked for text
        self._compact: bool | None = None
        # the SDK insists on a key; a local server ignores it. Retries are the queue's.
        self._client = AsyncOpenAI(
            base_url=endpoint, api_key=key or "none", timeout=timeout_s, max_retries=0
        )

    async def embeddings(
        self, model: str, texts: Sequence[str], dimensions: int | None
    ) -> list[Vector]:
        """Return the vectors in the order of `texts`; without `dimensions` of the model's own length.

        Raises BadInput when the texts are refused, otherwise Unavailable, RateLimited or
        DeadlineExceeded. No message quotes the provider's body, which may quote the text.
        """
        body: dict[str, object] = {"model": model, "input": list(texts)}
        if dimensions is not None:
            body["dimensions"] = dimensions
        if self._compact is False:
            return await self._post(body)
        try:
            vectors = await self._post({**body, "encoding_format": "base64"})
        except BadInput:
            if self._compact:
                raise
            vectors = await self._post(body)
            self._compact = False
            return vectors
        self._compact = True
        return vectors

    async def _post(self, body: dict[str, object]) -> list[Vector]:
        try:
            raw = await self._client.post("/embeddings", cast_to=object, body=body)
            answer = _ANSWER.validate_python(raw)
            items = sorted(answer.data, key=lambda item: item.index)
            return [_numbers(item.embedding) for item in items]
        except APIError as error:
            raise _as_choir(error) from error
        except (ValidationError, ValueError) as error:
            raise Unavailable("The embedding provider's answer cannot be read.") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _as_choir(error: APIError) -> ChoirError:
    match error:
        case APITimeoutError():
            return DeadlineExceeded("The embedding provider did not answer in time.")
        case APIConnectionError():
            return Unavailable("The embedding provider cannot be reached.")
        case RateLimitError():
            wait_s = _wait_s(error.response.headers.get("retry-after", ""))
            return RateLimited(
                "The embedding provider limits the rate (HTTP 429).", retry_after_s=wait_s
            )
        case APIStatusError(status_code=status) if status in REFUSED_TEXT:
            return BadInput(f"The embedding provider refuses the text (HTTP {status}).")
        case APIStatusError(status_code=401 | 403 as status):
            return Unavailable(
                f"The embedding provider refuses the key (HTTP {status}); check the secret "
                "embedding_key."
            )
        case APIStatusError(status_code=status):
            return Unavailable(f"The embedding provider failed (HTTP {status}).")
        case _:
            return Unavailable("The embedding provider's answer cannot be read.")


def _numbers(embedding: list[float] | str) -> Vector:
    """Return a vector that came as a list, or as little-endian 32-bit numbers in base64."""
    if not isinstance(embedding, str):
        return embedding
    numbers = array("f", b64decode(embedding, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _wait_s(header: str) -> float:
    """Return the seconds Retry-After names, as a number or as a date (RFC 9110)."""
    try:
        wait_s = float(header)
    except ValueError:
        try:
            until = parsedate_to_datetime(header)
        except ValueError:
            return DEFAULT_WAIT_S
        # without a zone it is said in UTC, too
        wait_s = (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(wait_s, 0.0), LONGEST_WAIT_S)
