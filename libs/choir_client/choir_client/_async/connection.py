"""Connection to one Choir, async: requests, streams of events, and transfers, with typed errors.

Written by hand, as its sync counterpart; the modules beside it are the source of `choir_client._sync`.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path

import httpx2
from pydantic import BaseModel

from choir_client.failures import (
    convert_transport_errors,
    json_body,
    parse_response,
    raise_for_status,
)
from choir_client.local_files import CHUNK_BYTES, size_of
from choir_client.operation import (
    WRITE_TIMEOUT_S,
    Operation,
    QueryParams,
    ResponseT,
    Stream,
)
from choir_common.errors import ChoirError
from choir_common.http.client import await_unless_hung, make_client
from choir_common.http.response_parser import LANGUAGE_HEADER, EventStreamReader, ServerSentEvent
from choir_common.i18n import ENGLISH, READER_LANGUAGE
from choir_common.target import Target

CONNECT_TIMEOUT_S = 5.0
SILENCE_S = 40.0
"""A stream sends a keepalive every 15 s."""
NO_NAMES: Mapping[str, str | int] = {}


class AsyncConnection:
    """Connections to one Choir; sends nothing until the first request."""

    def __init__(self, place: Target) -> None:
        place.check_address()
        token = place.token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if (language := READER_LANGUAGE.get()) != ENGLISH:
            headers[LANGUAGE_HEADER] = language
        self.target = place
        self._http = make_client(place.endpoint, headers=headers, ca_pem=place.ca_certificates())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def call(
        self,
        operation: Operation[ResponseT],
        names: Mapping[str, str | int] = NO_NAMES,
        *,
        body: BaseModel | None = None,
        params: QueryParams | None = None,
        timeout_s: float | None = None,
    ) -> ResponseT:
        """Send the request of an operation and return its response; raises the errors of `send`."""
        response = await self.send(
            operation.method,
            operation.url(names),
            body=body,
            params=params,
            timeout_s=operation.deadline_s if timeout_s is None else timeout_s,
        )
        return parse_response(response, operation.response)

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        params: QueryParams | None = None,
        timeout_s: float = WRITE_TIMEOUT_S,
    ) -> httpx2.Response:
        """Send a request and return the response.

        Raises the error that an error response contains, Unavailable if nothing answers, DeadlineExceeded
        after `timeout_s` or if the server hangs, OutcomeUnknown if the connection breaks during the request.
        """
        content, headers = json_body(body)
        with self._errors():
            response = await await_unless_hung(
                self._http,
                self._http.request(
                    method,
                    path,
                    params=dict(params or {}),
                    content=content,
                    headers=headers,
                    timeout=httpx2.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
                ),
            )
        raise_for_status(self.target, response)
        return response

    async def events(
        self,
        stream: Stream,
        names: Mapping[str, str | int],
        *,
        last_id: int,
        silence_s: float = SILENCE_S,
    ) -> AsyncGenerator[ServerSentEvent | None]:
        """Yield the events after `last_id` until the stream ends; None when it opens, and for each keepalive.

        Raises the errors of `send`, and DeadlineExceeded if nothing arrives for `silence_s`.
        """
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last_id)}
        timeout = httpx2.Timeout(silence_s, connect=CONNECT_TIMEOUT_S)
        request = self._http.build_request(
            "GET", stream.url(names), headers=headers, timeout=timeout
        )
        with self._errors():
            answer = await await_unless_hung(self._http, self._http.send(request, stream=True))
            try:
                await self._check(answer)
                yield None
                parser = EventStreamReader()
                async for chunk in answer.aiter_bytes():
                    for event in parser.feed(chunk):
                        yield event
                    yield None
            except ValueError as error:
                raise ChoirError(f"{request.url}: {error}.") from error
            finally:
                await answer.aclose()

    async def upload(
        self,
        path: str,
        body: AsyncIterator[bytes],
        *,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        timeout: httpx2.Timeout,
    ) -> httpx2.Response:
        """Send a PUT request with a streamed body. Raises the errors of `send`."""
        with self._errors():
            response = await self._http.put(
                path, content=body, params=dict(params), headers=dict(headers), timeout=timeout
            )
        raise_for_status(self.target, response)
        return response

    async def upload_file(
        self, path: str, file: Path, *, params: Mapping[str, str], timeout: httpx2.Timeout
    ) -> httpx2.Response:
        """Send a file of this machine in a PUT request.

        Raises the errors of `send`, and InvalidRequest if it is no readable regular file.
        """
        headers = {
            "Content-Length": str(await asyncio.to_thread(size_of, file)),
            "Content-Type": "application/octet-stream",
        }
        return await self.upload(
            path, _chunks(file), params=params, headers=headers, timeout=timeout
        )

    async def download(self, path: str, timeout: httpx2.Timeout) -> AsyncGenerator[bytes]:
        """Yield the chunks of a large response body. Raises the errors of `send`."""
        with self._errors():
            async with self._http.stream("GET", path, timeout=timeout) as answer:
                await self._check(answer)
                async for piece in answer.aiter_bytes():
                    yield piece

    async def _check(self, answer: httpx2.Response) -> None:
        if answer.is_error:
            await answer.aread()
            raise_for_status(self.target, answer)

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        self.target.check_socket()
        return convert_transport_errors(self.target)


async def _chunks(path: Path) -> AsyncGenerator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk
