"""Server for git's credential requests on a private Unix socket. Opened by `git`; `answer` decides.

The socket's mode excludes other users; the check of the peer's ancestors excludes processes that this agent
did not start.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from choir_agent.credentials.answer import MAX_QUESTION, Answer, GitCredential, answer_to
from choir_agent.credentials.peers import is_ours

log = structlog.get_logger("choir.agent.git")

PATIENCE_S = 5.0


class CredentialDoor:
    """Server that returns the current credential to git's helper."""

    def __init__(self, credential: Callable[[], GitCredential | None]) -> None:
        self._credential = credential
        self._server: asyncio.Server | None = None

    async def open(self, path: Path) -> None:
        """Listen at `path`; raises OSError if that fails."""
        self._server = await asyncio.start_unix_server(self._serve, path, limit=MAX_QUESTION)
        await asyncio.to_thread(path.chmod, 0o600)

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await self._answer(reader, writer)
                writer.write(answer.refusal.encode() + b"\0" + answer.text.encode())
                await writer.drain()
        except (OSError, TimeoutError, UnicodeDecodeError) as error:
            log.warning("a question for a git credential broke off", reason=repr(error))
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Answer:
        if not is_ours(writer.get_extra_info("socket")):
            log.warning("a process that this agent did not start asked for its git credential")
            return Answer(refusal="this agent answers only what it started itself")
        question = b""
        while len(question) <= MAX_QUESTION and (part := await reader.read(MAX_QUESTION)):
            question += part
        answer = answer_to(question.decode(), self._credential())
        log.info("asked for a git credential", given=bool(answer.text), refusal=answer.refusal)
        return answer
