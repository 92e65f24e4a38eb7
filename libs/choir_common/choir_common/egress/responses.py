"""Responses of a proxy itself, instead of the server that a client asked for."""

import asyncio
from http import HTTPStatus

from choir_common.errors import ChoirError


async def write_response(
    writer: asyncio.StreamWriter, status: HTTPStatus, text: str, field_line: str
) -> None:
    """Write a plain-text response with one more header field; the connection ends after it."""
    body = text.encode()
    writer.write(
        f"HTTP/1.1 {status.value} {status.phrase}\r\n{field_line}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )
    await writer.drain()


async def write_refusal(writer: asyncio.StreamWriter, error: ChoirError, code_field: str) -> None:
    """Answer why there is no connection to the server; the header field `code_field` has the error's code."""
    # To a client of a proxy, a server that fails is a bad gateway.
    status = HTTPStatus(error.status)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        status = HTTPStatus.BAD_GATEWAY
    await write_response(writer, status, error.message, f"{code_field}: {error.code}")
