"""The gateway: one WebSocket connection of a bot, by https://docs.discord.com/developers/events/gateway."""

import asyncio
import json
import time
import zlib
from collections import deque

from aiohttp import WSMsgType, web
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.discord.accounts import FakeBot
from choir_testing.discord.api_json import guild_json, user_json
from choir_testing.discord.sessions import ABORT, ConnectionControl, GatewaySession

GUILDS = 1 << 0
MESSAGE_CONTENT = 1 << 15
PRIVILEGED = (1 << 1) | (1 << 8) | MESSAGE_CONTENT
KNOWN_INTENTS = (1 << 26) - 1
MAX_PAYLOAD = 4096
MAX_EVENTS, EVENTS_WINDOW_S = 120, 60.0
HELLO, ACK, INVALID_SESSION = 10, 11, 9


class CloseError(Exception):
    """The server closes the connection with a code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class GatewayConnection:
    """The server's side of one connection."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.Transport | None,
        *,
        heartbeat_s: float,
        origin: str,
    ) -> None:
        self._socket = socket
        self._transport = transport
        self._heartbeat_s = heartbeat_s
        self._origin = origin
        self._compressor = zlib.compressobj()
        self._is_compressed = False
        self._received: deque[float] = deque()
        self._heartbeat_at = time.monotonic()
        self._session: GatewaySession | None = None
        self._sent = 0
        self._control = ConnectionControl()
        self._bot: FakeBot | None = None

    async def run(self, query: dict[str, str], bots: dict[str, FakeBot]) -> None:
        """Serve the connection until it ends."""
        tasks: list[asyncio.Task[None]] = []
        try:
            self._check_query(query)
            await self._send(
                {"op": HELLO, "d": {"heartbeat_interval": int(self._heartbeat_s * 1000)}}
            )
            tasks = [
                asyncio.create_task(self._receive(bots)),
                asyncio.create_task(self._push()),
                asyncio.create_task(self._obey()),
                asyncio.create_task(self._watch_heartbeats()),
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except CloseError as error:
            await self._socket.close(code=error.code)
        except ConnectionResetError:
            return
        finally:
            for task in tasks:
                task.cancel()
            if self._bot is not None:
                self._bot.sessions.connections.discard(self._control)

    def _check_query(self, query: dict[str, str]) -> None:
        compress = query.get("compress")
        if query.get("v") != "10":
            raise CloseError(4012)
        if query.get("encoding") != "json" or compress not in (None, "zlib-stream"):
            raise CloseError(4002)
        self._is_compressed = compress is not None

    async def _receive(self, bots: dict[str, FakeBot]) -> None:
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT or len(message.data) > MAX_PAYLOAD:
                raise CloseError(4002)
            self._count_event()
            try:
                payload = json.loads(message.data)
            except ValueError as error:
                raise CloseError(4002) from error
            await self._handle(payload, bots)

    def _count_event(self) -> None:
        now = time.monotonic()
        while self._received and self._received[0] < now - EVENTS_WINDOW_S:
            self._received.popleft()
        self._received.append(now)
        if len(self._received) > MAX_EVENTS:
            raise CloseError(4008)

    async def _handle(self, payload: JsonObject, bots: dict[str, FakeBot]) -> None:
        data = payload.get("d")
        match payload.get("op"):
            case 1:
                await self._acknowledge(data)
            case 2 if self._session is not None:
                raise CloseError(4005)
            case 2 if isinstance(data, dict):
                await self._identify(data, bots)
            case 6 if isinstance(data, dict):
                await self._resume(data, bots)
            case 3 | 4 | 8 if self._session is None:
                raise CloseError(4003)
            case 3 | 4 | 8:
                return
            case _:
                raise CloseError(4001)

    async def _acknowledge(self, sequence: JsonValue) -> None:
        if sequence is not None and not isinstance(sequence, int):
            raise CloseError(4002)
        self._heartbeat_at = time.monotonic()
        if self._bot is not None:
            self._bot.sessions.heartbeats += 1
        await self._send({"op": ACK})

    async def _identify(self, data: JsonObject, bots: dict[str, FakeBot]) -> None:
        bot = self._authenticate(data, bots)
        intents, properties = data.get("intents"), data.get("properties")
        if not isinstance(intents, int) or intents & ~KNOWN_INTENTS:
            raise CloseError(4013)
        if intents & (PRIVILEGED & ~MESSAGE_CONTENT if bot.may_read_all else PRIVILEGED):
            raise CloseError(4014)
        if not isinstance(properties, dict) or not {"os", "browser", "device"} <= properties.keys():
            raise CloseError(4002)
        session = bot.sessions.start(intents)
        session.add(
            "READY",
            {
                "v": 10,
                "user": user_json(bot.user_id, is_bot=True),
                "guilds": [{"id": str(it), "unavailable": True} for it in bot.guild_ids],
                "private_channels": [],
                "session_id": session.session_id,
                "resume_gateway_url": f"{self._origin.replace('http', 'ws', 1)}/resume",
                "application": {"id": str(bot.user_id), "flags": 0},
            },
        )
        if intents & GUILDS:
            for guild_id in bot.guild_ids:
                session.add("GUILD_CREATE", guild_json(bot, guild_id))
        self._begin(bot, session, 0)

    async def _resume(self, data: JsonObject, bots: dict[str, FakeBot]) -> None:
        bot = self._authenticate(data, bots)
        session = bot.sessions.by_id.get(str(data.get("session_id")))
        sequence = data.get("seq")
        if session is None:
            await self._send({"op": INVALID_SESSION, "d": False})
            return
        if not isinstance(sequence, int) or sequence > len(session.events):
            raise CloseError(4007)
        bot.sessions.resumed += 1
        # The events since `sequence`, then this one; it has no place among the numbered ones.
        self._begin(bot, session, sequence)
        await self._push_missed()
        await self._send({"op": 0, "t": "RESUMED", "s": len(session.events), "d": {}})

    def _authenticate(self, data: JsonObject, bots: dict[str, FakeBot]) -> FakeBot:
        bot = bots.get(str(data.get("token")))
        if bot is None:
            raise CloseError(4004)
        return bot

    def _begin(self, bot: FakeBot, session: GatewaySession, sequence: int) -> None:
        self._bot = bot
        self._sent = sequence
        self._session = session
        session.news.set()
        bot.sessions.connections.add(self._control)

    async def _push(self) -> None:
        while True:
            if self._session is None:
                await asyncio.sleep(0.01)
                continue
            self._session.news.clear()
            await self._push_missed()
            await self._session.news.wait()

    async def _push_missed(self) -> None:
        while self._session is not None and self._sent < len(self._session.events):
            event = self._session.events[self._sent]
            self._sent += 1
            await self._send(event)

    async def _obey(self) -> None:
        while True:
            order = await self._control.orders.get()
            if order == ABORT:
                if self._transport is not None:
                    self._transport.abort()
                return
            if isinstance(order, int):
                raise CloseError(order)
            await self._send(order)

    async def _watch_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            if time.monotonic() - self._heartbeat_at > 4 * self._heartbeat_s + 5:
                raise CloseError(4009)

    async def _send(self, payload: JsonObject) -> None:
        if self._control.is_silent:
            return
        text = json.dumps(payload)
        if not self._is_compressed:
            await self._socket.send_str(text)
            return
        data = self._compressor.compress(text.encode())
        await self._socket.send_bytes(data + self._compressor.flush(zlib.Z_SYNC_FLUSH))
