"""The first conversation, whatever channel carries it; and what its log must then show."""

import asyncio
import contextlib
import http.server
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from choir_common.wire.events import (
    Event,
    MemoryWriteCommitted,
    ToolCallCommitted,
    ToolResultCommitted,
    parse_payload,
)
from tests.support.replay import assert_replay_is_deterministic
from tests.support.stack import EmbeddedStack, read_log, sessions_of, verify

SCORE = Path(__file__).parent / "scores" / "first_conversation.json"
NOTE = "The spare key is under the third pot."
TEA = "the user drinks oolong tea in the afternoon"
PAGE = "<html><title>Harbour</title><body><p>The ferry leaves at seven.</p></body></html>"

Ask = Callable[[str], Awaitable[str]]


class _OnePage(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@contextlib.contextmanager
def serving_a_page() -> Iterator[str]:
    """Serve one page on loopback; return its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OnePage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def leave_a_note(stack: EmbeddedStack) -> None:
    """Put the note into the agent's workspace."""
    (stack.home / "workspaces" / "main" / "notes.txt").write_text(NOTE)


async def restart_agent(stack: EmbeddedStack) -> None:
    """Close the session in good order and open the next."""
    await asyncio.to_thread(stack.run, "agent", "stop", "main")
    await asyncio.to_thread(stack.run, "agent", "start", "main")


async def hold_conversation(stack: EmbeddedStack, ask: Ask, page: str) -> None:
    """Read, remember, recall in a new session, browse; assert each answer."""
    assert NOTE in await ask("Please read the note for me")
    assert "remember" in await ask(f"Remember that {TEA}")
    await restart_agent(stack)
    assert "oolong" in await ask("What do you recall about afternoon drinks?")
    assert "ferry leaves at seven" in await ask(f"browse http://{page}/harbour")


async def check_logs(stack: EmbeddedStack) -> None:
    """Assert that both sessions' logs hold every call with its result, and verify."""
    newest, before = (await sessions_of(stack))[:2]
    assert newest["continues"] == before["session_id"]
    for session in (newest, before):
        verdict = await verify(stack, session["session_id"])
        assert verdict.ok, verdict
        assert verdict.events == verdict.head_rev > 0
    first = await read_log(stack, before["session_id"])
    second = await read_log(stack, newest["session_id"])
    assert_replay_is_deterministic(first)
    assert_replay_is_deterministic(second)
    assert _finished_tools(first) == ["choir.fs.read", "choir.memory.upsert"]
    assert _finished_tools(second) == ["choir.memory.query", "choir.web.browse"]
    assert any(isinstance(parse_payload(event), MemoryWriteCommitted) for event in first)


def _finished_tools(log: list[Event]) -> list[str]:
    payloads = [parse_payload(event) for event in log]
    committed = [p.call_id for p in payloads if isinstance(p, ToolCallCommitted)]
    results = [p for p in payloads if isinstance(p, ToolResultCommitted)]
    assert committed == [result.call_id for result in results]
    assert all(result.status == "success" for result in results)
    return [result.tool for result in results]
