"""Sessions of the gateway: numbered events that a resumed connection gets again.

`gateway` connects them to WebSockets; `user` adds events.
"""

import asyncio
import secrets
from dataclasses import dataclass, field

from choir_common.wire.model import JsonObject

RECONNECT, INVALID_SESSION = 7, 9
ABORT = -1
"""Break the connection without a code, as a dead network does."""


@dataclass(slots=True)
class GatewaySession:
    """A session, which lives on for a while without a connection."""

    session_id: str
    intents: int
    events: list[JsonObject] = field(default_factory=list)
    """Events as sent; the number of an event is its place plus one."""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, name: str, data: JsonObject) -> None:
        """Add an event."""
        number = len(self.events) + 1
        self.events.append({"op": 0, "t": name, "s": number, "d": data})
        self.news.set()


@dataclass(slots=True)
class GatewaySessions:
    """The sessions of one bot, and what a test asks of its connections."""

    by_id: dict[str, GatewaySession] = field(default_factory=dict)
    identified: int = 0
    """How many sessions were started."""
    resumed: int = 0
    """How many connections continued a session."""
    heartbeats: int = 0
    connections: set["ConnectionControl"] = field(default_factory=set)

    def start(self, intents: int) -> GatewaySession:
        """Start a session."""
        self.identified += 1
        session = GatewaySession(secrets.token_hex(16), intents)
        self.by_id[session.session_id] = session
        return session

    def dispatch(self, name: str, data: JsonObject, intent: int = 0) -> None:
        """Send an event to the sessions that asked for it; without a session it is lost."""
        for session in self.by_id.values():
            if not intent or session.intents & intent:
                session.add(name, data)

    def forget(self) -> None:
        """Forget all sessions, so that none can be resumed."""
        self.by_id.clear()

    def request_reconnect(self) -> None:
        """Ask the bot to connect again and to resume."""
        self._order({"op": RECONNECT, "d": None})

    def invalidate(self, *, is_resumable: bool) -> None:
        """Invalidate the session of the connections."""
        self._order({"op": INVALID_SESSION, "d": is_resumable})

    def close(self, code: int) -> None:
        """Close the connections with a code."""
        self._order(code)

    def abort(self) -> None:
        """Break the connections."""
        self._order(ABORT)

    def silence(self) -> None:
        """Let the connections stay open but send nothing more, not even acknowledgements of heartbeats."""
        for connection in self.connections:
            connection.is_silent = True

    def _order(self, order: JsonObject | int) -> None:
        for connection in self.connections:
            connection.orders.put_nowait(order)


@dataclass(slots=True, eq=False)
class ConnectionControl:
    """What a test can ask of one connection."""

    orders: "asyncio.Queue[JsonObject | int]" = field(default_factory=asyncio.Queue)
    """Payloads to send, and codes to close with."""
    is_silent: bool = False
