"""Transport of an MCP server that is a confined program: JSON-RPC lines over its standard streams.

The SDK's own transport starts programs itself, so it cannot be used: here the launcher of tool calls starts
them (decision 59). A message has a size limit, and what a server writes faster than it is read waits in its
socket.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from choir_agent.mcp_client.faults import McpServerError
from choir_agent.tools.call_launcher_client import StartedCall
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.streams import StderrText, output_pipe
from choir_common.i18n import _

MAX_MESSAGE_BYTES = 8_000_000
END_WITHIN_S = 1.0

Incoming = SessionMessage | Exception
ReadStream = MemoryObjectReceiveStream[Incoming]
WriteStream = MemoryObjectSendStream[SessionMessage]


class ProgramStreams:
    """The streams of a server for the SDK's session, and the reason for its end."""

    def __init__(
        self, call: StartedCall, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._call, self._reader, self._writer = call, reader, writer
        # No buffer between server and session: what is not read waits in the socket.
        self._to_session, self.incoming = anyio.create_memory_object_stream[Incoming](0)
        self.outgoing, self._from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def run(self) -> str:
        """Pass messages until the server ends; return why, and kill it if it breaks the protocol."""
        writing = asyncio.create_task(self._write())
        try:
            reason = await self._read()
            return reason or await self._reason_of_end()
        finally:
            writing.cancel()
            self.close()

    def close(self) -> None:
        """Close all streams, so that the session sees the end of the connection."""
        for stream in (self._to_session, self.incoming, self.outgoing, self._from_session):
            stream.close()

    async def _read(self) -> str:
        """Pass the server's messages on; return what is wrong with one, or nothing at the end."""
        while True:
            try:
                line = await self._reader.readuntil()
            except asyncio.LimitOverrunError:
                return _("it sent a message of more than {max_message_bytes} bytes").format(
                    max_message_bytes=MAX_MESSAGE_BYTES
                )
            except (asyncio.IncompleteReadError, ConnectionError):
                return ""
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                # Programs print other lines, too, and a mistake in one message need not end the server.
                continue
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._to_session.send(SessionMessage(message))

    async def _write(self) -> None:
        with suppress(anyio.ClosedResourceError, ConnectionError):
            async for sent in self._from_session:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._writer.write(text.encode() + b"\n")
                await self._writer.drain()

    async def _reason_of_end(self) -> str:
        """Return how the program ended, after its output did."""
        try:
            async with asyncio.timeout(END_WITHIN_S):
                reply = await self._call.wait()
        except (TimeoutError, OSError, ValueError):
            return _("it closed its output")
        return (
            reply.excess
            or reply.error
            or _("it ended with exit code {exit_code}").format(exit_code=reply.exit_code)
        )


@asynccontextmanager
async def open_program(
    runner: ProgramRunner, program: Program
) -> AsyncIterator[tuple[ReadStream, WriteStream, asyncio.Task[str]]]:
    """Start a server; yield its streams and a task that ends with it, with the reason.

    Everything that it started is killed at the end. Raises McpServerError if it cannot be started.
    """
    # A socket for both directions, as Node gives its children: it needs no transport of our own.
    ours, theirs = socket.socketpair()
    stderr = StderrText()
    with closing(ours), closing(theirs):
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_MESSAGE_BYTES)
        async with output_pipe(stderr) as pipe:
            try:
                async with runner.serve(program, [theirs.fileno(), theirs.fileno(), pipe]) as call:
                    # Only the program has it now: so its end is the end of its output.
                    theirs.close()
                    streams = ProgramStreams(call, reader, writer)
                    running = asyncio.create_task(_with_stderr(streams, stderr))
                    try:
                        yield streams.incoming, streams.outgoing, running
                    finally:
                        streams.close()
                        await _stop(running, writer)
            except OSError as error:
                raise McpServerError(
                    _("it cannot be started: {error}").format(error=str(error))
                ) from error


async def _with_stderr(streams: ProgramStreams, stderr: StderrText) -> str:
    reason = await streams.run()
    return (
        _("{reason}; it wrote: {text}").format(reason=reason, text=stderr.text())
        if stderr.text()
        else reason
    )


async def _stop(running: asyncio.Task[str], writer: asyncio.StreamWriter) -> None:
    """Give the server a moment to end by itself, as the protocol says: its input has ended."""
    writer.close()
    await asyncio.wait((running,), timeout=END_WITHIN_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
