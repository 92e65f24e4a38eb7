"""Stream a file from another service's HTTP endpoint. Used by the clients that move files."""

import contextlib
from collections.abc import AsyncIterator, Mapping

import httpx2

from choir_common.errors import Unavailable
from choir_common.http.problem_document import read_problem

PIECE = 64 * 1024
SILENCE_S = 20.0
"""Read timeout: a response that sends nothing for this long is abandoned."""


@contextlib.asynccontextmanager
async def streamed(
    client: httpx2.AsyncClient, path: str, query: Mapping[str, str] | None = None
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the body of `GET path` in chunks.

    Raises the error in the response, or Unavailable if the service is down or the connection breaks.
    """
    try:
        async with client.stream(
            "GET", path, params=query, timeout=httpx2.Timeout(SILENCE_S, connect=5.0)
        ) as answer:
            if answer.is_error:
                body = await answer.aread()
                raise read_problem(answer.status_code, body, answer.headers.get("retry-after"))
            yield answer.aiter_bytes(PIECE)
    except httpx2.HTTPError as error:
        raise Unavailable(f"{path} broke off: {type(error).__name__}.") from error
