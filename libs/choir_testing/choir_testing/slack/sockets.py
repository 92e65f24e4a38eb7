"""Socket Mode of one app: connections, envelopes, and their repetition until they are acknowledged.

`server` connects it to WebSockets; `user` adds events. Follows https://docs.slack.dev/apis/events-api/using-socket-mode.
"""

import asyncio
import json
import secrets
import uuid
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from choir_common.wire.model import JsonObject

ACK_TIMEOUT_S = 3.0
MAX_ATTEMPTS = 3
MAX_CONNECTIONS = 10
CLOSE: JsonObject = {"type": "close"}
ABORT: JsonObject = {"type": "abort"}


@dataclass(slots=True, eq=False)
class FakeEnvelope:
    """An event on its way to the app."""

    kind: str
    payload: JsonObject
    accepts_response: bool = False
    envelope_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    attempt: int = 0
    is_acknowledged: asyncio.Event = field(default_factory=asyncio.Event)

    def as_json(self) -> JsonObject:
        """Return the message of Socket Mode."""
        body: JsonObject = {
            "envelope_id": self.envelope_id,
            "type": self.kind,
            "payload": self.payload,
            "accepts_response_payload": self.accepts_response,
        }
        if self.kind == "events_api":
            body |= {
                "retry_attempt": self.attempt,
                "retry_reason": "timeout" if self.attempt else "",
            }
        return body


@dataclass(slots=True, eq=False)
class FakeConnection:
    """One open WebSocket."""

    orders: "asyncio.Queue[JsonObject]" = field(default_factory=asyncio.Queue)
    """Messages to send; CLOSE and ABORT end the connection."""


@dataclass(slots=True)
class SocketHub:
    """The connections and the open envelopes of one app."""

    tickets: set[str] = field(default_factory=set)
    connections: list[FakeConnection] = field(default_factory=list)
    open_envelopes: dict[str, FakeEnvelope] = field(default_factory=dict)
    ack_timeout_s: float = ACK_TIMEOUT_S
    opened: int = 0
    """How many connections were opened so far."""
    acknowledged: list[str] = field(default_factory=list)
    ignores_acknowledgements: bool = False
    """While set, every envelope is repeated."""
    is_enabled: bool = True
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def new_ticket(self) -> str:
        """Return the ticket of an address, which opens one connection."""
        ticket = secrets.token_hex(12)
        self.tickets.add(ticket)
        return ticket

    def dispatch(
        self, kind: str, payload: JsonObject, *, accepts_response: bool = False
    ) -> FakeEnvelope:
        """Send an event over one of the connections; without a connection it is lost."""
        envelope = FakeEnvelope(kind, payload, accepts_response)
        task = asyncio.create_task(self._deliver(envelope))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return envelope

    def request_refresh(self, reason: str = "refresh_requested") -> None:
        """Announce the end of the connections; they stay open."""
        for connection in self.connections:
            connection.orders.put_nowait(
                {"type": "disconnect", "reason": reason, "debug_info": {"host": "fake"}}
            )

    def close(self) -> None:
        """Close the connections."""
        self._order(CLOSE)

    def abort(self) -> None:
        """Break the connections, as a dead network does."""
        self._order(ABORT)

    def stop(self) -> None:
        """Deliver nothing more."""
        for task in list(self._tasks):
            task.cancel()

    async def serve(
        self, socket: web.WebSocketResponse, transport: asyncio.Transport | None
    ) -> None:
        """Serve one connection until it ends."""
        connection = FakeConnection()
        await socket.send_str(json.dumps(self._hello()))
        if len(self.connections) >= MAX_CONNECTIONS:
            await socket.send_str(
                json.dumps({"type": "disconnect", "reason": "too_many_websockets"})
            )
            await socket.close()
            return
        self.opened += 1
        self.connections.append(connection)
        tasks = [
            asyncio.create_task(self._receive(socket)),
            asyncio.create_task(_obey(connection, socket, transport)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.connections.remove(connection)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _hello(self) -> JsonObject:
        return {
            "type": "hello",
            "num_connections": len(self.connections) + 1,
            "connection_info": {"app_id": "A0"},
            "debug_info": {"host": "fake", "approximate_connection_time": 18060},
        }

    async def _deliver(self, envelope: FakeEnvelope) -> None:
        self.open_envelopes[envelope.envelope_id] = envelope
        for attempt in range(MAX_ATTEMPTS):
            envelope.attempt = attempt
            if self.connections:
                self.connections[-1].orders.put_nowait(envelope.as_json())
            elif attempt == 0:
                break
            try:
                await asyncio.wait_for(envelope.is_acknowledged.wait(), self.ack_timeout_s)
                break
            except TimeoutError:
                continue
        self.open_envelopes.pop(envelope.envelope_id, None)

    async def _receive(self, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                return
            envelope = self.open_envelopes.get(_envelope_id(message.data))
            if envelope is not None and not self.ignores_acknowledgements:
                self.acknowledged.append(envelope.envelope_id)
                envelope.is_acknowledged.set()

    def _order(self, order: JsonObject) -> None:
        for connection in self.connections:
            connection.orders.put_nowait(order)


async def _obey(
    connection: FakeConnection, socket: web.WebSocketResponse, transport: asyncio.Transport | None
) -> None:
    while True:
        order = await connection.orders.get()
        if order is ABORT:
            if transport is not None:
                transport.abort()
            return
        if order is CLOSE:
            await socket.close()
            return
        await socket.send_str(json.dumps(order))


def _envelope_id(text: str) -> str:
    body = json.loads(text)
    if not isinstance(body, dict) or not body.keys() <= {"envelope_id", "payload"}:
        raise ValueError(f"This is no acknowledgement: {text[:200]}")
    return str(body.get("envelope_id"))
