"""Responses of a proxy itself, instead of the server that a client asked for."""

import asyncio


async def write_response(
    writer: asyncio.StreamWriter, status: str, text: str, field_line: str
) -> None:
    """Write a plain-text response with one more header field; the connection ends after it."""
    body = text.encode()
    writer.write(
        f"HTTP/1.1 {status}\r\n{field_line}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )
    await writer.drain()
