"""The doors of the gateway: the console over HTTP, deliveries over the bus, and its health.

Built by app.py. The console's routes are reached through control's endpoint, which passes them on.
"""

import hmac
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import Field, ValidationError

from choir_common.bus import subjects
from choir_common.bus.client import Bus, Endpoint
from choir_common.errors import BadInput, Unauthorized
from choir_common.http import sse
from choir_common.http.service_app import Readiness, make_service_app
from choir_common.wire.configuring import BotTokens
from choir_common.wire.messages import Accepted, History, OutboundMessage, Receipt
from choir_common.wire.model import Wire
from choir_common.wire.operator import PartStatus
from choir_gateway import VERSION
from choir_gateway.bot_doors import file_routes, webhook_routes
from choir_gateway.channels.console.hub import ConsoleHub
from choir_gateway.roster import Roster

# a message's own limit (100,000 characters) as UTF-8, JSON around it
MAX_BODY_BYTES = 512 * 1024
MAX_ID = 2**62
# with the DM's name (64) before it within an update id's 200: a key cut short would be another's
MAX_KEY = 128


class Said(Wire):
    """What a person says at the console."""

    text: str = Field(min_length=1, max_length=100_000)
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=MAX_KEY)
    """Repeating a message under its key stores it once; without one each request is a message."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How the gateway knows control, and who hears of the tokens it brings."""

    operator_token: str | None = field(repr=False)
    learn: Callable[[Iterable[str]], None]
    """The redactor's: told before anybody uses a token."""


def bus_endpoints(roster: Roster) -> Sequence[Endpoint]:
    """List what the gateway answers on the bus."""

    async def deliver(message: OutboundMessage) -> Receipt:
        return await roster.deliver(message)

    return (Endpoint(subjects.deliver_message(), OutboundMessage, deliver),)


def console_app(
    bus: Bus,
    roster: Roster,
    hub: ConsoleHub,
    token: str | None,
    trust: Trust,
) -> FastAPI:
    """Build the app with the console's routes and health; `token` is what TCP callers must show."""
    app = make_service_app(
        "Choir gateway",
        VERSION,
        Readiness(_readiness(bus, roster)),
        max_body_bytes=MAX_BODY_BYTES,
    )
    app.include_router(_console_routes(roster, hub), dependencies=[Depends(_admit(token))])
    app.include_router(
        _token_routes(roster, trust.learn), dependencies=[Depends(_admit_control(trust))]
    )
    app.include_router(file_routes(roster), dependencies=[Depends(_admit_control(trust))])
    app.include_router(webhook_routes(roster))
    return app


def _console_routes(roster: Roster, hub: ConsoleHub) -> APIRouter:
    router = APIRouter(prefix="/v1/dms/{dm}", tags=["console"])

    @router.post("/messages", status_code=202)
    async def say(dm: str, request: Request) -> Accepted:
        """Store a message; it is durable when this answers."""
        roster.console_dm(dm)
        said = _read_said(await request.body())
        key = said.idempotency_key or _key_of(request) or os.urandom(12).hex()
        return await hub.accept(roster.gateway_of(dm), dm, key, said.text)

    @router.get("/messages")
    async def history(
        dm: str,
        after: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> History:
        """Return what was said to the user after an id, oldest first."""
        roster.console_dm(dm)
        return await hub.history(dm, after, limit)

    @router.get("/events")
    async def follow(
        dm: str, last_event_id: Annotated[str | None, Header()] = None
    ) -> StreamingResponse:
        """Follow what is said to the user; `Last-Event-ID` resumes, 0 is the beginning."""
        roster.console_dm(dm)
        return sse.stream(hub.follow(dm, _read_id(last_event_id)))

    return router


def _token_routes(roster: Roster, learn: Callable[[Iterable[str]], None]) -> APIRouter:
    router = APIRouter(prefix="/v1/channels", tags=["channels"])

    @router.put("/tokens", status_code=204)
    async def take_tokens(request: Request) -> None:
        """Take the bots' tokens from control: this door only, never the bus."""
        try:
            parcel = BotTokens.model_validate_json(await request.body())
        except ValidationError as error:
            # the framework's own words would quote what it was given
            places = {".".join(map(str, fault["loc"][:1])) for fault in error.errors()}
            raise BadInput(f"Not the tokens of bots: {', '.join(sorted(places))}.") from None
        learn(parcel.tokens.values())
        roster.take_tokens(parcel)

    return router


def _read_said(body: bytes) -> Said:
    try:
        return Said.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, fault["loc"])) or "body"
        raise BadInput(f'{place}: {fault["msg"]}. Send JSON such as {{"text": "hello"}}.') from None


def _key_of(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= MAX_KEY:
        raise BadInput(f"Idempotency-Key must have 1 to {MAX_KEY} characters.")
    return key


def _read_id(header: str | None) -> int | None:
    if header is None:
        return None
    if not header.isascii() or not header.isdigit() or int(header) > MAX_ID:
        raise BadInput(f"Last-Event-ID must be the id of an event, not {header[:40]!r}.")
    return int(header)


def _admit(token: str | None) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        if token is None:
            return
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode(), token.encode()):
            raise Unauthorized("The operator token is needed (Authorization: Bearer ...).")

    return check


def _admit_control(trust: Trust) -> Callable[[Request], Awaitable[None]]:
    """Ask for the operator token on the socket as well: whoever names a bot's token hears its users."""
    if trust.operator_token is not None:
        return _admit(trust.operator_token)

    async def refuse(_: Request) -> None:
        raise Unauthorized("This gateway has no operator token, so it cannot know control.")

    return refuse


def _readiness(bus: Bus, roster: Roster) -> Callable[[], Awaitable[Sequence[PartStatus]]]:
    async def check() -> Sequence[PartStatus]:
        away = "" if bus.connected else "NATS is not reachable; it is being reconnected."
        return (PartStatus(name="nats", ok=bus.connected, detail=away), *roster.state())

    return check
