"""The connection of one app to Slack by Socket Mode: envelopes, acknowledgements, and new connections.

Slack closes each connection after some hours and announces it by `disconnect`. The next connection is then
opened while the old one still brings events. slack_sdk's own loop closes the old one first and hides its
errors, so this module has another one.
"""

import asyncio
from typing import Protocol

import structlog
from pydantic import ValidationError

from choir_common.backoff import Backoff
from choir_common.errors import ChoirError
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.slack.client import SlackClient, SlackSocket, describe_error
from choir_gateway.channels.slack.errors import ACCESS_TEXTS, SlackAccessError
from choir_gateway.channels.slack.payloads import BotIdentity, SocketMessage

log = structlog.get_logger("choir.gateway.slack")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 30.0
FATAL_WAIT_S = 60.0
CONNECT_TIMEOUT_S = 60.0
HELLO_TIMEOUT_S = 30.0
# A connection that was announced to end is read for so long at most.
DRAIN_S = 60.0


class EnvelopeReceiver(Protocol):
    """The receiver of what the connection yields."""

    async def prepare(self, me: BotIdentity) -> None:
        """Prepare for the first connection as the bot `me`; raises as SlackClient.call."""
        ...

    def take_session(self) -> None:
        """Note that a connection has started."""
        ...

    def take_envelope(self, envelope: SocketMessage) -> None:
        """Take an event; returns at once."""
        ...


class SocketConnection:
    """Connection of one app, which is replaced whenever it ends."""

    def __init__(self, client: SlackClient, gateway: str, receiver: EnvelopeReceiver) -> None:
        self._client = client
        self._gateway = gateway
        self._receiver = receiver
        self._backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        self.error: str | None = "has not reached Slack yet"

    async def run(self) -> None:
        """Receive events until cancelled."""
        while not await self._prepare_once():
            continue
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._follow_once(tasks)

    async def _prepare_once(self) -> bool:
        """Check the bot token and prepare the receiver; after an error wait and return False."""
        try:
            me = await self._client.call("auth.test", {}, BotIdentity, deadline=_deadline())
            await self._receiver.prepare(me)
        except (ChoirError, RefusedError) as error:
            await self._note_failure(error)
        except Exception as error:  # outermost loop of an app: the others and the console continue
            log.exception("login failed", gateway=self._gateway)
            await self._note_failure(error)
        else:
            return True
        return False

    async def _follow_once(self, tasks: asyncio.TaskGroup) -> None:
        """Open a connection and wait until the next one is needed."""
        try:
            socket = await self._client.open_socket(_deadline())
        except (ChoirError, RefusedError) as error:
            await self._note_failure(error)
            return
        except Exception as error:  # outermost loop of an app: the others and the console continue
            log.exception("connection failed", gateway=self._gateway)
            await self._note_failure(error)
            return
        is_replaceable = asyncio.Event()
        tasks.create_task(self._read(socket, is_replaceable))
        await is_replaceable.wait()
        await asyncio.sleep(self._backoff.pause_s())

    async def _read(self, socket: SlackSocket, is_replaceable: asyncio.Event) -> None:
        """Read a connection to its end; set the event when another one should be opened."""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S) as limit:
                async for text in socket:
                    envelope = SocketMessage.model_validate_json(text)
                    match envelope.type:
                        case "hello":
                            limit.reschedule(None)
                            self._note_session()
                        case "disconnect":
                            limit.reschedule(asyncio.get_running_loop().time() + DRAIN_S)
                            self._note_disconnect(envelope.reason)
                            is_replaceable.set()
                        case _:
                            await self._take(socket, envelope)
        except TimeoutError:
            log.info("connection ended", gateway=self._gateway, reason="timeout")
        except (ChoirError, ValidationError) as error:
            log.info("connection ended", gateway=self._gateway, reason=type(error).__name__)
        except Exception:  # outermost loop of an app: the others and the console continue
            log.exception("event not handled", gateway=self._gateway)
        finally:
            if not is_replaceable.is_set():
                self.error = "The connection to Slack ended; the next one is being opened."
            is_replaceable.set()
            await socket.close()

    async def _take(self, socket: SlackSocket, envelope: SocketMessage) -> None:
        """Take an event, then acknowledge it: Slack repeats it otherwise, after three seconds."""
        self._receiver.take_envelope(envelope)
        if envelope.envelope_id is not None:
            await socket.acknowledge(envelope.envelope_id)

    def _note_session(self) -> None:
        self.error = None
        self._backoff.reset()
        self._receiver.take_session()

    def _note_disconnect(self, reason: str) -> None:
        log.info("slack asks for a new connection", gateway=self._gateway, reason=reason)
        if reason in ACCESS_TEXTS:
            self.error = ACCESS_TEXTS[reason]

    async def _note_failure(self, error: Exception) -> None:
        self.error = describe_error(error)
        log.warning("cannot receive messages; retrying", gateway=self._gateway, error=self.error)
        pause_s = self._backoff.pause_s()
        if isinstance(error, SlackAccessError):
            pause_s = FATAL_WAIT_S
        elif isinstance(error, ChoirError) and error.retry_after_s:
            pause_s = max(pause_s, error.retry_after_s)
        await asyncio.sleep(pause_s)


def _deadline() -> float:
    return asyncio.get_running_loop().time() + CONNECT_TIMEOUT_S
