"""Speak to an OpenAI-compatible `/embeddings` through the openai SDK.

Imported by `provider` alone and only when the first vector is needed: the SDK takes 0.3 s and 16 MB.
Its own raw `.post()` is used, because its typed calls cost several times the request.
"""

from collections.abc import Sequence

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
from choir_memory.embedding.port import LONGEST_WAIT_S

REFUSED_TEXT = frozenset({400, 413, 422})
DEFAULT_WAIT_S = 1.0


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore")

    index: int
    embedding: list[float]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    data: list[_Item]


_ANSWER = TypeAdapter(_Answer)


class ProviderClient:
    """One HTTP client to one provider; close it after use."""

    def __init__(self, endpoint: str, key: str | None, timeout_s: float) -> None:
        # the SDK insists on a key; a local server ignores it. Retries are the queue's.
        self._client = AsyncOpenAI(
            base_url=endpoint, api_key=key or "none", timeout=timeout_s, max_retries=0
        )

    async def embeddings(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors in the order of `texts`.

        Raises BadInput when the texts are refused, otherwise Unavailable, RateLimited or
        DeadlineExceeded. No message quotes the provider's body, which may quote the text.
        """
        try:
            raw = await self._client.post(
                "/embeddings", cast_to=object, body={"model": model, "input": list(texts)}
            )
            answer = _ANSWER.validate_python(raw)
        except APIError as error:
            raise _as_choir(error) from error
        except (ValidationError, ValueError) as error:
            raise Unavailable("The embedding provider's answer cannot be read.") from error
        return [item.embedding for item in sorted(answer.data, key=lambda item: item.index)]

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


def _wait_s(header: str) -> float:
    try:
        return min(max(float(header), 0.0), LONGEST_WAIT_S)
    except ValueError:
        return DEFAULT_WAIT_S
