"""The program of a harness: JSON lines over its standard streams, confined like a tool.

At most one line is read ahead: what it writes while Choir works on a request waits in its socket, so a flood
cannot fill the agent's memory. Lines, and all lines of a job together, have a size limit.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

import orjson

from choir_agent.harnesses.updates import HarnessError
from choir_agent.tools.call_launcher_client import StartedCall
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.streams import StderrText, output_pipe
from choir_common.eventlog.json_scrubbing import is_too_deep
from choir_common.i18n import _
from choir_common.wire.model import JsonObject

MAX_LINE_BYTES = 8_000_000
MAX_OUTPUT_BYTES = 256_000_000
"""All that a harness may write in one job."""
MAX_STRANGE_LINES = 1_000
"""Lines that are no message; programs print a few."""
END_WITHIN_S = 1.0
WRITE_WITHIN_S = 30.0


class ProgramLines:
    """Messages to and from the program."""

    def __init__(
        self,
        call: StartedCall,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        stderr: StderrText,
    ) -> None:
        self._call, self._reader, self._writer, self._stderr = call, reader, writer, stderr
        self._bytes = self._strange = 0
        self._line: bytes | None = None
        """A line that has arrived, for the next `read`."""

    async def has_more(self, within_s: float | None) -> bool:
        """Return whether a line has arrived, or arrives in time; False if the program ends.

        None: no limit. A cancelled wait loses nothing.
        """
        if self._line is None:
            # Errors come again at the next `read`, which says what they mean.
            with suppress(
                TimeoutError,
                asyncio.LimitOverrunError,
                asyncio.IncompleteReadError,
                ConnectionError,
            ):
                async with asyncio.timeout(within_s):
                    self._line = await self._reader.readuntil()
        return self._line is not None

    async def read(self) -> JsonObject:
        """Return the next message; raises HarnessError at the end, and for what is no message."""
        while True:
            # A reader whose buffer is full never waits; the agent's other work must go on.
            await asyncio.sleep(0)
            try:
                line, self._line = self._line or await self._reader.readuntil(), None
            except asyncio.LimitOverrunError:
                raise HarnessError(
                    _("it sent a message of more than {max_line_bytes} bytes").format(
                        max_line_bytes=MAX_LINE_BYTES
                    )
                ) from None
            except (asyncio.IncompleteReadError, ConnectionError):
                raise HarnessError(await self._reason_of_end()) from None
            self._bytes += len(line)
            if self._bytes > MAX_OUTPUT_BYTES:
                raise HarnessError(
                    _("it wrote more than {max_output_bytes} bytes").format(
                        max_output_bytes=MAX_OUTPUT_BYTES
                    )
                )
            with suppress(orjson.JSONDecodeError):
                message = orjson.loads(line)
                if isinstance(message, dict) and not is_too_deep(message):
                    return message
            self.note_strange()

    def note_strange(self) -> None:
        """Count a line that the protocol does not know; raises HarnessError for too many."""
        self._strange += 1
        if self._strange > MAX_STRANGE_LINES:
            raise HarnessError(
                _("more than {max_strange_lines} of its lines were no valid messages").format(
                    max_strange_lines=MAX_STRANGE_LINES
                )
            )

    async def send(self, message: JsonObject) -> None:
        """Send a message; raises HarnessError if the program has ended, or does not read."""
        try:
            self._writer.write(orjson.dumps(message) + b"\n")
            async with asyncio.timeout(WRITE_WITHIN_S):
                await self._writer.drain()
        except TimeoutError:
            raise HarnessError(_("it does not read its messages")) from None
        except ConnectionError:
            raise HarnessError(await self._reason_of_end()) from None

    async def _reason_of_end(self) -> str:
        """Return how the program ended, and the end of what it wrote to standard error."""
        reason: str = _("it closed its output")
        with suppress(TimeoutError, OSError, ValueError):
            async with asyncio.timeout(END_WITHIN_S):
                reply = await self._call.wait()
            reason = (
                reply.excess
                or reply.error
                or _("it ended with exit code {exit_code}").format(exit_code=reply.exit_code)
            )
        wrote = self._stderr.text()
        return (
            _("{reason}; it wrote: {wrote}").format(reason=reason, wrote=wrote) if wrote else reason
        )


@asynccontextmanager
async def open_program(runner: ProgramRunner, program: Program) -> AsyncIterator[ProgramLines]:
    """Start a program; everything that it started is killed at the end.

    Raises HarnessError if it cannot be started.
    """
    # Two sockets: Python's asyncio takes one for both directions for closed as soon as something arrives.
    stdin, their_stdin = socket.socketpair()
    stdout, their_stdout = socket.socketpair()
    stderr = StderrText()
    with closing(stdin), closing(stdout), closing(their_stdin), closing(their_stdout):
        streams = [await asyncio.open_unix_connection(sock=stdin)]
        try:
            streams.append(await asyncio.open_unix_connection(sock=stdout, limit=MAX_LINE_BYTES))
            (_own, writer), (reader, _theirs) = streams
            async with output_pipe(stderr) as pipe:
                files = [their_stdin.fileno(), their_stdout.fileno(), pipe]
                async with runner.serve(program, files) as call:
                    # Only the program has them now: so its end is the end of its output.
                    their_stdin.close()
                    their_stdout.close()
                    yield ProgramLines(call, reader, writer, stderr=stderr)
        except OSError as error:
            raise HarnessError(
                _("it cannot be started: {error}").format(error=str(error))
            ) from error
        finally:
            for _own, stream in streams:
                stream.transport.abort()
            await asyncio.sleep(0)  # which closes them
