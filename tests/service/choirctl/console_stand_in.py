"""A console channel that answers everything, and breaks connections as it is told.

Stands where control would: on the socket of a temporary home.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from choir_common.errors import NotFound
from choir_common.http.listen import bind_unix, serve
from choir_common.http.response_parser import ServerSentEvent
from choir_common.http.responses import KEEPALIVE, problem_response, render_event
from choir_common.target import Target
from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.events import GENESIS, Event, EventPayload, ReplyKind, render_payload
from choir_common.wire.messages import (
    ButtonResponse,
    EditTarget,
    InboundAccepted,
    OutboundHistory,
    OutboundMessage,
)
from choir_common.wire.operator import AgentView, CommandView, DmView, EventPage, Page, SessionView
from choir_common.wire.rpc import ResourceBindings


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
    log: list[Event] = field(default_factory=list)
    """The session of the agent that holds the DM; without an event there is no agent."""
    put: dict[str, bytes] = field(default_factory=dict)
    """Files put for a message, by their names."""
    answers_with: dict[str, bytes] = field(default_factory=dict)
    """Files that go with each answer, by their names."""
    sent: dict[str, bytes] = field(default_factory=dict)
    """Files of messages to the user, by `<outbox id>/<ref>`."""
    named: list[list[str]] = field(default_factory=list)
    """The refs in each message that was accepted."""
    corrected: list[str] = field(default_factory=list)
    """What was said under the key that each correction names."""
    presses: list[tuple[str, str]] = field(default_factory=list)
    """The data and the message of each press."""
    going_on: list[tuple[str, str]] = field(default_factory=list)
    """Kind and data of what is shown, told to each stream as it opens."""
    is_answering: bool = True
    """Whether each message is answered at once."""
    shown: list[tuple[str, str]] = field(default_factory=list)
    """Kind and data of what `show` has told the open streams."""
    commands: list[str] = field(default_factory=list)

    async def accept(self, text: str, key: str, edits: str | None = None) -> InboundAccepted | None:
        """Store a message once per key and answer it; None when the acknowledgement gets lost."""
        self.posts += 1
        if edits is not None:
            self.corrected.append(self.keys[edits])
        if text.startswith("/"):
            self.commands.append(text)
            note = f"did {text}"
            return InboundAccepted(
                inbox_id="",
                duplicate=False,
                agent_id="main",
                agent_state="running",
                note=note,
                command=text.split()[0],
            )
        duplicate = key in self.keys
        inbox_id = self.keys.setdefault(key, f"in_{len(self.keys)}")
        if not duplicate and self.is_answering:
            await self.say(f"you said {text}", inbox_id, files=self.answers_with)
        if self.posts <= self.lose_acknowledgements:
            return None
        return InboundAccepted(
            inbox_id=inbox_id, duplicate=duplicate, agent_id="main", agent_state="running"
        )

    async def say(
        self,
        text: str,
        answers: str | None = None,
        kind: ReplyKind | None = None,
        *,
        files: Mapping[str, bytes | None] | None = None,
        buttons: Sequence[str] = (),
        edits: int | None = None,
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
                attachments=tuple(
                    Attachment(name=name, kind="document", ref=str(number))
                    for number, name in enumerate(files or {})
                ),
                buttons=tuple(Button(label=each, data=each) for each in buttons),
                edits=None if edits is None else EditTarget(outbox_id=edits),
            )
            for number, content in enumerate((files or {}).values()):
                if content is not None:
                    self.sent[f"{message.outbox_id}/{number}"] = content
            self.said.append(message)
            self.changed.notify_all()

    async def show(self, kind: str, data: str) -> None:
        """Tell the open streams something that is not stored."""
        async with self.changed:
            self.shown.append((kind, data))
            self.changed.notify_all()

    async def until_said(self, count: int = 1) -> None:
        """Wait until so many messages, or a command, have come."""
        async with asyncio.timeout(60):
            while len(self.keys) < count:
                await asyncio.sleep(0.02)

    async def until_command(self) -> str:
        """Wait for the first command and return it."""
        async with asyncio.timeout(60):
            while not self.commands:
                await asyncio.sleep(0.02)
        return self.commands[0]

    async def happens(self, payload: EventPayload, lane: str = "edge") -> None:
        """Add an event to the session's log."""
        async with self.changed:
            event = Event(
                session_id="ses_1",
                rev=len(self.log) + 1,
                lane=lane,
                type=payload.type,
                payload=render_payload(payload),
                at="2026-11-21T05:00:00.000000Z",
                hash_prev=GENESIS,
                hash="h",
            )
            self.log.append(event)
            self.changed.notify_all()

    async def events(self, after: int) -> AsyncIterator[bytes]:
        """Send the log as it grows."""
        yield KEEPALIVE
        while True:
            async with self.changed:
                while after >= len(self.log):
                    await self.changed.wait()
            event = self.log[after]
            after += 1
            yield render_event(ServerSentEvent(str(event.rev), "event", event.model_dump_json()))

    async def stream(self, after: str | None) -> AsyncIterator[bytes]:
        """Send what is after `after`, one already sent again, until the cut."""
        self.streams.append(after)
        at = len(self.said) if after is None else max(0, int(after) - 1)
        count = len(self.shown)
        yield KEEPALIVE
        for kind, shown in self.going_on:
            yield render_event(ServerSentEvent("", kind, shown))
        for _ in range(self.cut_after):
            async with self.changed:
                while at >= len(self.said) and count >= len(self.shown):
                    await self.changed.wait()
            if count < len(self.shown):
                yield render_event(ServerSentEvent("", *self.shown[count]))
                count += 1
                continue
            message = self.said[at]
            at += 1
            kind = "message" if message.edits is None else "edit"
            yield render_event(
                ServerSentEvent(str(message.outbox_id), kind, message.model_dump_json())
            )


def make_app(console: Console) -> FastAPI:
    """Return `console` as control's door would show it."""
    app = FastAPI()

    @app.post("/v1/dms/{dm}/messages")
    async def post(dm: str, request: Request) -> Response:
        body = await request.json()
        console.named.append(body.get("files", []))
        accepted = await console.accept(body["text"], body["idempotency_key"], body.get("edits"))
        if accepted is None:
            return Response("{", 503)
        return Response(accepted.model_dump_json(), 202)

    @app.get("/v1/commands")
    async def commands() -> Response:
        names = ("/inject", "/cancel", "/jobs", "/help")
        views = [CommandView(name=name, usage=name, summary="") for name in names]
        return Response(Page[CommandView](items=views).model_dump_json())

    @app.get("/v1/dms/{dm}/messages")
    async def messages(dm: str) -> Response:
        if dm != "console":
            return problem_response(NotFound(f"There is no DM {dm}."))
        # the first question is only how far the DM is
        return Response(
            OutboundHistory(messages=tuple(console.said), last=len(console.said)).model_dump_json()
        )

    @app.get("/v1/dms/{dm}/events")
    async def events(dm: str, request: Request) -> Response:
        if dm != "console":
            return problem_response(NotFound(f"There is no DM {dm}."))
        after = request.headers.get("Last-Event-ID")
        return StreamingResponse(console.stream(after), media_type="text/event-stream")

    _add_files(app, console)
    _add_agent(app, console)
    return app


def _add_files(app: FastAPI, console: Console) -> None:
    @app.put("/v1/dms/{dm}/files")
    async def put(dm: str, name: str, request: Request) -> Response:
        console.put[name] = await request.body()
        taken = Attachment(name=name, kind="document", ref=f"{dm}/{len(console.put)}")
        return Response(taken.model_dump_json(), 201)

    @app.get("/v1/dms/{dm}/messages/{number}/files/{ref}")
    async def get(dm: str, number: int, ref: str) -> Response:
        content = console.sent.get(f"{number}/{ref}")
        if content is None:
            return problem_response(NotFound("That file is gone."))
        return Response(content)

    @app.post("/v1/dms/{dm}/press")
    async def press(dm: str, request: Request) -> Response:
        body = await request.json()
        console.presses.append((body["data"], body["message_id"]))
        return Response(ButtonResponse(answer="Approved: it is done.").model_dump_json())


def _add_agent(app: FastAPI, console: Console) -> None:
    @app.get("/v1/dms")
    async def dms() -> Page[DmView]:
        named = ("console", "second")
        return Page(
            items=[
                DmView(name=name, gateway="console", admin=True, agent_id="main", bound=True)
                for name in named
            ]
        )

    @app.get("/v1/agents")
    async def agents() -> Response:
        held = [an_agent()] if console.log else []
        return Response(Page[AgentView](items=held).model_dump_json())

    @app.get("/v1/sessions")
    async def sessions() -> Response:
        return Response(Page[SessionView](items=[a_session(console)]).model_dump_json())

    @app.get("/v1/sessions/{session}")
    async def session(session: str) -> Response:
        return Response(a_session(console).model_dump_json())

    @app.get("/v1/sessions/{session}/events")
    async def events(session: str, after: int, limit: int) -> Response:
        items = tuple(console.log[after : after + limit])
        return Response(EventPage(items=items, next=None).model_dump_json())

    @app.get("/v1/sessions/{session}/events/stream")
    async def stream(session: str, request: Request) -> Response:
        after = int(request.headers.get("Last-Event-ID", "0"))
        return StreamingResponse(console.events(after), media_type="text/event-stream")


def an_agent() -> AgentView:
    return AgentView(
        agent_id="main",
        state="running",
        session_id="ses_1",
        epoch=1,
        bindings=ResourceBindings(workspace="main", llm="default", dm="console"),
        model="m",
        pid=None,
        started_at=None,
        last_heartbeat_at=None,
    )


def a_session(console: Console) -> SessionView:
    return SessionView(
        session_id="ses_1",
        agent_id="main",
        status="active",
        epoch=1,
        head_rev=len(console.log),
        head_hash="h",
        continues=None,
        started_at=datetime.now(UTC),
        ended_at=None,
    )


@contextlib.asynccontextmanager
async def served(console: Console) -> AsyncIterator[Target]:
    """Serve `console` where a Choir in a temporary home would answer."""
    with contextlib.ExitStack() as cleanup:
        home = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="ch-"))
        place = Target(Path(home), None)
        # a server that is cancelled, as when the block fails, leaves its listener open
        listener = cleanup.enter_context(bind_unix(place.socket))
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(make_app(console), [listener], stop))
            try:
                yield place
            finally:
                stop.set()
