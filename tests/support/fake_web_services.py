"""Fake servers for Brave Search, Notion and ElevenLabs that follow their documentation, errors and limits.

Real HTTP over a real port. A test sets the next response (`then`) and reads the received requests.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from choir_common.http.listen import bind_tcp

KEY = "canary-9f27c1d4e8-key"
Handler = Callable[[Request], Awaitable[Response]]


@dataclass
class ReceivedRequest:
    """A received request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: object


@dataclass
class FakeWebService:
    """A fake service: its received requests, and queued responses that replace the usual ones."""

    endpoint: str = ""
    asked: list[ReceivedRequest] = field(default_factory=list)
    queued: list[Response] = field(default_factory=list)

    def then(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        """Queue a response for the next request."""
        self.queued.append(JSONResponse(body, status, headers))

    async def note(self, request: Request) -> Response | None:
        """Record a request; return the queued response, if there is one."""
        body: object = await request.json() if await request.body() else None
        query, headers = dict(request.query_params), dict(request.headers)
        self.asked.append(ReceivedRequest(request.method, request.url.path, query, headers, body))
        return self.queued.pop(0) if self.queued else None


@contextlib.asynccontextmanager
async def _served(service: FakeWebService, handler: Handler) -> AsyncIterator[FakeWebService]:
    async def receive(request: Request) -> Response:
        return await service.note(request) or await handler(request)

    methods = ["GET", "POST", "PATCH"]
    app = Starlette(routes=[Route("/{path:path}", receive, methods=methods)])
    sock = bind_tcp("127.0.0.1", 0, "nothing")
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    task = asyncio.create_task(server.serve(sockets=[sock]))
    service.endpoint = f"http://127.0.0.1:{sock.getsockname()[1]}"
    try:
        yield service
    finally:
        server.should_exit = True
        await task
        sock.close()


# Brave Search API


@contextlib.asynccontextmanager
async def fake_brave() -> AsyncIterator[FakeWebService]:
    """Serve GET /res/v1/web/search."""
    service = FakeWebService()

    async def search(request: Request) -> Response:
        if request.headers.get("x-subscription-token") != KEY:
            return brave_error(422, "SUBSCRIPTION_TOKEN_INVALID", "The provided token is invalid.")
        if request.url.path != "/res/v1/web/search":
            return brave_error(404, "NOT_FOUND", "no such resource")
        count = int(request.query_params["count"])
        if not 1 <= count <= 20:
            return brave_error(422, "VALIDATION", "Unable to validate request parameter(s)")
        results = [
            {
                "title": f"Result &amp; <strong>{number}</strong>",
                "url": f"https://example.org/{number}",
                "description": "An <strong>escaped</strong> &lt;tag&gt;",
                "page_age": "2026-01-02T03:04:05",
                "language": "en",
                "family_friendly": True,
                "profile": {"name": "Example", "url": "https://example.org"},
            }
            for number in range(count)
        ]
        query = {"original": request.query_params["q"], "more_results_available": True}
        body = {"type": "search", "query": query, "web": {"type": "search", "results": results}}
        return JSONResponse(body, headers={"X-RateLimit-Remaining": "0, 1999"})

    async with _served(service, search):
        service.endpoint += "/res/v1"
        yield service


def brave_error(
    status: int, code: str, detail: str, headers: dict[str, str] | None = None
) -> Response:
    """Return an error response in Brave's format."""
    error = {"id": "5e6f", "status": status, "code": code, "detail": detail, "meta": {}}
    return JSONResponse({"type": "ErrorResponse", "error": error, "time": 1}, status, headers)


# ElevenLabs


@contextlib.asynccontextmanager
async def fake_elevenlabs(
    audio: bytes = b"OggS" + b"\x01" * 200_000,
) -> AsyncIterator[FakeWebService]:
    """Serve POST /v1/text-to-speech/{voice_id}."""
    service = FakeWebService()

    async def speak(request: Request) -> Response:
        if request.headers.get("xi-api-key") != KEY:
            return eleven_error(401, "invalid_api_key", "Invalid API key")
        if not request.url.path.endswith("/voice1"):
            return eleven_error(404, "voice_not_found", "A voice with that voice_id was not found.")
        body = await request.json()
        if "text" not in body:
            fault = {"loc": ["body", "text"], "msg": "field required", "type": "missing"}
            return JSONResponse({"detail": [fault]}, 422)

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(audio), 10_000):
                yield audio[start : start + 10_000]

        return StreamingResponse(chunks(), media_type="audio/mpeg")

    async with _served(service, speak):
        service.endpoint += "/v1"
        yield service


def eleven_error(status: int, code: str, message: str) -> Response:
    """Return an error response in ElevenLabs' format."""
    return JSONResponse({"detail": {"status": code, "message": message}}, status)


# Notion

PAGE = "11111111-1111-1111-1111-111111111111"
DATABASE = "22222222-2222-2222-2222-222222222222"
SOURCE = "33333333-3333-3333-3333-333333333333"
TWO_SOURCES = "44444444-4444-4444-4444-444444444444"


def rich(text: str, href: str | None = None) -> list[object]:
    """Return a rich text with one segment."""
    return [{"type": "text", "plain_text": text, "href": href, "annotations": {"code": False}}]


def block(kind: str, text: str, number: int = 0, children: bool = False, **more: object) -> object:
    """Return a block."""
    identity = f"{number:08}-0000-0000-0000-000000000000"
    held = {"rich_text": rich(text), **more}
    return {"object": "block", "id": identity, "type": kind, "has_children": children, kind: held}


def notion_page(identity: str = PAGE, title: str = "Plans") -> dict[str, object]:
    """Return a page of the data source."""
    return {
        "object": "page",
        "id": identity,
        "url": f"https://www.notion.so/Plans-{identity.replace('-', '')}",
        "properties": {
            "Name": {"id": "title", "type": "title", "title": rich(title)},
            "Status": {"id": "a", "type": "status", "status": {"name": "Open"}},
            "Tags": {"id": "b", "type": "multi_select", "multi_select": [{"name": "x"}]},
            "Due": {"id": "c", "type": "date", "date": {"start": "2026-01-31", "end": None}},
            "Done": {"id": "d", "type": "checkbox", "checkbox": False},
            "Cost": {"id": "e", "type": "number", "number": 12.5},
            "Made": {"id": "f", "type": "created_time", "created_time": "2026-01-01T00:00:00Z"},
            "Link": {"id": "g", "type": "url", "url": None},
        },
    }


def notion_error(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> Response:
    """Return an error response in Notion's format."""
    body = {"object": "error", "status": status, "code": code, "message": message}
    return JSONResponse({**body, "request_id": "r"}, status, headers)


class FakeNotion:
    """Handler for Notion's API: pages, a database with one data source, one with two, and errors."""

    def __init__(self) -> None:
        self.children: dict[str, list[object]] = {}
        self.made: list[object] = []
        self.appended: list[object] = []
        self.changed: list[object] = []

    async def answer(self, request: Request) -> Response:
        """Return the response to a request."""
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return notion_error(401, "unauthorized", "API token is invalid.")
        if request.headers.get("notion-version") != "2025-09-03":
            return notion_error(400, "missing_version", "Notion-Version header is missing")
        parts = request.url.path.removeprefix("/v1/").split("/")
        body = await request.json() if await request.body() else {}
        match request.method, parts:
            case "POST", ["search"]:
                return _page_of([notion_page()], body.get("start_cursor"))
            case "POST", ["data_sources", identity, "query"] if identity == SOURCE:
                rows: list[object] = [notion_page(title=f"Row {n}") for n in range(3)]
                return _page_of(rows, body.get("start_cursor"))
            case "GET", ["data_sources", identity] if identity == SOURCE:
                page = notion_page()
                return JSONResponse({**page, "object": "data_source", "id": SOURCE})
            case "GET", ["databases", identity] if identity in (DATABASE, TWO_SOURCES):
                sources = [{"id": SOURCE, "name": "one"}, {"id": PAGE, "name": "two"}]
                kept = sources[:1] if identity == DATABASE else sources
                return JSONResponse({"object": "database", "id": identity, "data_sources": kept})
            case "GET", ["pages", identity] if identity == PAGE:
                return JSONResponse(notion_page())
            case "GET", ["blocks", identity, "children"]:
                start = request.query_params.get("start_cursor")
                return _page_of(self.children.get(identity, []), start)
            case "POST", ["pages"]:
                self.made.append(body)
                return JSONResponse(notion_page())
            case "PATCH", ["blocks", _, "children"]:
                if len(body["children"]) > 100:
                    return notion_error(400, "validation_error", "children: at most 100")
                self.appended += body["children"]
                return JSONResponse({"object": "list", "results": []})
            case "PATCH", ["pages", _]:
                self.changed.append(body)
                return JSONResponse(notion_page())
        return notion_error(404, "object_not_found", f"Could not find {parts[-1]}.")


def _page_of(items: list[object], cursor: str | None, size: int = 100) -> Response:
    start = int(cursor or 0)
    more = start + size < len(items)
    body = {"object": "list", "results": items[start : start + size], "has_more": more}
    return JSONResponse({**body, "next_cursor": str(start + size) if more else None})


@contextlib.asynccontextmanager
async def fake_notion() -> AsyncIterator[tuple[FakeWebService, FakeNotion]]:
    """Serve Notion's API."""
    service, server = FakeWebService(), FakeNotion()
    async with _served(service, server.answer):
        yield service, server
