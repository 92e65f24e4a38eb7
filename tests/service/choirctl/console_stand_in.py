"""A console channel that answers everything, and breaks connections as it is told.

Stands where control would: on the socket of a temporary home.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from choir_common.errors import NotFound
from choir_common.http import sse
from choir_common.http.listen import bind_unix, serve
from choir_common.http.problems import problem_response
from choir_common.http.sse_read import ServerSentEvent
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import Accepted, History, OutboundMessage
from choir_common.wire.operator import CommandView, Page
from choirctl.place import Place


@dataclass
class Console:
    """A console channel that answers everything, and breaks connections as it is told."""

    cut_after: int = 1000
    """The stream ends after so many messages."""
    lose_acknowledgements: int = 0
    """So many posts are stored, and their answer is lost."""
    said: list[OutboundMessage] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    posts: int = 0
    streams: list[str | None] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def accept(self, text: str, key: str) -> Accepted | None:
        """Store a message once per key and answer it; None when the acknowledgement gets lost."""
        self.posts += 1
        if text.startswith("/"):
            note = f"did {text}"
            return Accepted(
                inbox_id="",
                duplicate=False,
                agent_id="main",
                agent_state="running",
                note=note,
                command=text.split()[0],
            )
        duplicate = key in self.keys
        inbox_id = self.keys.setdefault(key, f"in_{len(self.keys)}")
        if not duplicate:
            await self.say(f"you said {text}", inbox_id)
        if self.posts <= self.lose_acknowledgements:
            return None
        return Accepted(
            inbox_id=inbox_id, duplicate=duplicate, agent_id="main", agent_state="running"
        )

    async def say(
        self, text: str, answers: str | None = None, kind: ReplyKind | None = None
    ) -> None:
        """Put something into the outbox."""
        async with self.changed:
            message = OutboundMessage(
                outbox_id=len(self.said) + 1,
                dm="console",
                gateway="console",
                agent_id="main",
                session_id="s",
                rev=1,
                kind=kind or ("answer" if answers else "notice"),
                text=text,
                answers=answers,
                at=datetime.now(UTC),
            )
            self.said.append(message)
            self.changed.notify_all()

    async def stream(self, after: str | None) -> AsyncIterator[bytes]:
        """Send what is after `after`, one already sent again, until the cut."""
        self.streams.append(after)
        at = len(self.said) if after is None else max(0, int(after) - 1)
        yield sse.KEEPALIVE
        for _ in range(self.cut_after):
            async with self.changed:
                while at >= len(self.said):
                    await self.changed.wait()
            message = self.said[at]
            at += 1
            yield sse.render(
                ServerSentEvent(str(message.outbox_id), "message", message.model_dump_json())
            )


def make_app(console: Console) -> FastAPI:
    """Return `console` as control's door would show it."""
    app = FastAPI()

    @app.post("/v1/dms/{dm}/messages")
    async def post(dm: str, request: Request) -> Response:
        body = await request.json()
        accepted = await console.accept(body["text"], body["idempotency_key"])
        if accepted is None:
            return Response("{", 503)
        return Response(accepted.model_dump_json(), 202)

    @app.get("/v1/commands")
    async def commands() -> Response:
        names = ("/inject", "/cancel", "/jobs")
        views = [CommandView(name=name, usage=name, summary="") for name in names]
        return Response(Page[CommandView](items=views).model_dump_json())

    @app.get("/v1/dms/{dm}/messages")
    async def messages(dm: str) -> Response:
        if dm != "console":
            return problem_response(NotFound(f"There is no DM {dm}."))
        return Response(History(messages=(), last=len(console.said)).model_dump_json())

    @app.get("/v1/dms/{dm}/events")
    async def events(dm: str, request: Request) -> Response:
        if dm != "console":
            return problem_response(NotFound(f"There is no DM {dm}."))
        after = request.headers.get("Last-Event-ID")
        return StreamingResponse(console.stream(after), media_type="text/event-stream")

    return app


@contextlib.asynccontextmanager
async def served(console: Console) -> AsyncIterator[Place]:
    """Serve `console` where a Choir in a temporary home would answer."""
    with tempfile.TemporaryDirectory(prefix="ch-") as home:
        place = Place(Path(home), None)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(make_app(console), [bind_unix(place.socket)], stop))
            try:
                yield place
            finally:
                stop.set()
