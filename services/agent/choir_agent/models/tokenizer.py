"""Offline token counts, made in a short-lived child process.

For what a provider did not count; the program is `tokenizer_program`.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE

import orjson
import structlog

log = structlog.get_logger("choir.agent.tokens")

PROGRAM = "choir_agent.models.tokenizer_program"
PATIENCE_S = 20.0
"""Loading the tables takes about a second of a busy core."""


class Tokenizer:
    """Token counter for the o200k_base encoding, which is close to that of most models."""

    async def count(self, *texts: str) -> tuple[int, ...] | None:
        """Return the number of tokens of each text, or None if the tokenizer failed or timed out."""
        lines = b"".join(orjson.dumps(text) + b"\n" for text in texts)
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await self._run(lines)
            counts = tuple(int(line) for line in answer.split())
        except (OSError, TimeoutError, ValueError) as error:
            log.warning("token count failed", error=str(error) or type(error).__name__)
            return None
        return counts if len(counts) == len(texts) else None

    async def _run(self, lines: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-m", PROGRAM, stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
            env={}, cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            answer, _ = await process.communicate(lines)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return answer
