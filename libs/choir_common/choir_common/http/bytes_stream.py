"""Read a file from another service's door, piece by piece. Used by the clients that move files."""

import contextlib
from collections.abc import AsyncIterator, Mapping

import httpx2

from choir_common.errors import Unavailable
from choir_common.http.problem_document import read_problem

PIECE = 64 * 1024
SILENCE_S = 20.0
"""A door that sends nothing for so long is given up."""


@contextlib.asynccontextmanager
async def streamed(
    client: httpx2.AsyncClient, path: str, query: Mapping[str, str] | None = None
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Give the body of `GET path` in pieces.

    Raises the error that the other side answered with, Unavailable when it is away or breaks off.
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
