"""The connection of one bot to Discord's gateway: login, events, RESUME, and a new session where that fails.

discord.py speaks the protocol and starts a heartbeat thread per connection. Its own loop waits up to 17
minutes after errors, so this module has another one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import discord
import structlog
import yarl
from discord.gateway import DiscordWebSocket, ReconnectWebSocket

from choir_common.backoff import Backoff
from choir_gateway.channels.discord.api_call import NETWORK_ERRORS, describe_error
from choir_gateway.channels.discord.client import DiscordClient
from choir_gateway.channels.discord.intents import find_intents
from choir_gateway.channels.interface import ConversationDirectory

log = structlog.get_logger("choir.gateway.discord")

FIRST_WAIT_S = 0.2
# Discord allows 1,000 new sessions a day.
MAX_WAIT_S = 30.0
FATAL_WAIT_S = 60.0
CONNECT_TIMEOUT_S = 60.0
# After so many failed connections in a row a new session is started at the general address.
MAX_RESUMES = 3

Step = Callable[[], Awaitable[None]]


class DiscordEventReceiver(Protocol):
    """The receiver of what the connection yields."""

    async def prepare(self) -> None:
        """Prepare for the first session; raises the errors of the library."""
        ...


class GatewayConnection:
    """Connection of one bot, which stays logged in while the gateway is away."""

    def __init__(
        self,
        client: DiscordClient,
        token: str,
        *,
        gateway: str,
        conversations: ConversationDirectory,
    ) -> None:
        self._client = client
        self._token = token
        self._gateway = gateway
        self._conversations = conversations
        self._socket: DiscordWebSocket | None = None
        self._backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        self._failures = 0
        self.is_logged_in = False
        self.error: str | None = "has not reached Discord yet"

    def note_session(self) -> None:
        """Record that Discord has started or resumed a session."""
        self.error = None
        self._failures = 0
        self._backoff.reset()

    async def run(self, receiver: DiscordEventReceiver) -> None:
        """Receive events until cancelled."""
        try:
            await self._repeat_until_done(self._log_in)
            await self._repeat_until_done(receiver.prepare)
            while True:
                await self._follow_once()
        finally:
            self.is_logged_in = False
            await self._close_socket()
            await self._client.http.close()

    async def _log_in(self) -> None:
        # A failed login leaves a session behind.
        await self._client.http.close()
        self._client.http.connector = discord.utils.MISSING
        await self._client.login(self._token)
        self.is_logged_in = True

    async def _repeat_until_done(self, step: Step) -> None:
        while True:
            try:
                return await step()
            except NETWORK_ERRORS as error:
                self._note_error(error)
                is_fatal = isinstance(error, discord.LoginFailure)
                await asyncio.sleep(FATAL_WAIT_S if is_fatal else self._backoff.pause_s())
            except (
                Exception
            ) as error:  # outermost loop of a bot: the others and the console continue
                log.exception("login failed", gateway=self._gateway)
                self._note_error(error)
                await asyncio.sleep(MAX_WAIT_S)

    async def _follow_once(self) -> None:
        """Follow one connection to its end, and wait before the next one."""
        try:
            self._socket = await asyncio.wait_for(self._connect(), CONNECT_TIMEOUT_S)
            # A heartbeat is answered, and ends the wait for an event, every 41 s.
            while self._client.intents == self._find_intents():
                await self._socket.poll_event()
            log.info("new session for other conversations", gateway=self._gateway)
            await self._close_socket()
            self._socket = None
        except ReconnectWebSocket as request:
            log.info("discord asks for a new connection", gateway=self._gateway, how=request.op)
            await self._close_socket()
            if not request.resume:
                self._socket = None
            await asyncio.sleep(self._backoff.pause_s())
        except discord.ConnectionClosed as error:
            # The library raises it for codes that a new connection does not help against.
            self._note_error(error)
            await self._close_socket()
            self._socket = None
            await asyncio.sleep(FATAL_WAIT_S)
        except NETWORK_ERRORS as error:
            await self._note_failure(error)
        except Exception as error:  # outermost loop of a bot: the others and the console continue
            log.exception("event not handled", gateway=self._gateway)
            await self._note_failure(error)

    async def _note_failure(self, error: Exception) -> None:
        self._note_error(error)
        self._failures += 1
        await self._close_socket()
        if self._failures >= MAX_RESUMES:
            self._socket = None
        await asyncio.sleep(self._backoff.pause_s())

    async def _connect(self) -> DiscordWebSocket:
        last = self._socket
        if last is not None and last.session_id is not None:
            return await DiscordWebSocket.from_client(
                self._client,
                gateway=last.gateway,
                session=last.session_id,
                sequence=last.sequence,
                resume=True,
            )
        self._client.use_intents(self._find_intents())
        _, url, _ = await self._client.http.get_bot_gateway()
        return await DiscordWebSocket.from_client(
            self._client, gateway=yarl.URL(url), initial=self._failures == 0
        )

    def _find_intents(self) -> discord.Intents:
        return find_intents(self._gateway, self._conversations)

    async def _close_socket(self) -> None:
        """Close the connection but keep its session for RESUME: code 1000 would end the session."""
        if self._socket is not None and self._socket.open:
            await self._socket.close(code=4000)

    def _note_error(self, error: Exception) -> None:
        self.error = describe_error(error)
        log.warning("cannot receive messages; retrying", gateway=self._gateway, error=self.error)
