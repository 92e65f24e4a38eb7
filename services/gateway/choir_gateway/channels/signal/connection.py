"""The connection over which messages arrive; it is opened again whenever it ends.

What arrives at signal-cli while no connection is open is lost, so nothing comes between two connections but a
short pause.
"""

import asyncio
from datetime import UTC, datetime, timedelta

import structlog
from pydantic import ValidationError

from choir_common.backoff import Backoff
from choir_common.errors import ChoirError
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.signal.api_client import SignalApi
from choir_gateway.channels.signal.receiver import SignalReceiver
from choir_gateway.channels.signal.socket import SocketSettings, open_socket
from choir_gateway.channels.signal.state_store import SignalStateStore

log = structlog.get_logger("choir.gateway.signal")

FIRST_WAIT_S = 0.1
MAX_WAIT_S = 15.0
STABLE_S = 10.0
"""A connection of this length ends the growth of the pauses."""
MARK_S = 30.0
"""So often the time of the connection is recorded."""
MAX_GAP = timedelta(minutes=2)
"""After a longer time without a connection, users are told."""


class SignalConnection:
    """Connection of one account."""

    def __init__(
        self,
        api: SignalApi,
        gateway: str,
        *,
        settings: SocketSettings,
        receiver: SignalReceiver,
        store: SignalStateStore,
    ) -> None:
        self._api = api
        self._gateway = gateway
        self._settings = settings
        self._receiver = receiver
        self._store = store
        self._backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        # A request to receive in another mode would lose messages, so the mode is known before the first one.
        self._is_checked = False
        self._is_open = asyncio.Event()
        self.error = "has not reached signal-cli-rest-api yet"
        """Why no messages arrive, for operators."""

    async def run(self) -> None:
        """Receive messages until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mark_time())
            while True:
                await self._follow_once()

    async def _follow_once(self) -> None:
        """Receive until the connection ends; wait before the next one."""
        try:
            if not self._is_checked:
                await self._api.check()
            await self._follow()
        except (ChoirError, RefusedError) as error:
            self._note_failure(str(error))
        except ValidationError:
            self._note_failure("This address is not that of signal-cli-rest-api.")
        except Exception:  # outermost loop of an account: the other channels continue
            log.exception("connection failed", gateway=self._gateway)
            self._note_failure("The connection failed; see the gateway's log.")
        await asyncio.sleep(self._backoff.pause_s())

    async def _follow(self) -> None:
        """Receive until the connection ends."""
        loop = asyncio.get_running_loop()
        opened_at = None
        try:
            async with open_socket(self._settings) as texts:
                opened_at = loop.time()
                self._note_opening()
                async for text in texts:
                    await self._receiver.take_frame(text)
        finally:
            self._is_open.clear()
            if opened_at is not None:
                self.error = (
                    "The connection to signal-cli-rest-api ended; messages that arrive there are lost "
                    "until the next one is open."
                )
                log.warning("connection ended", gateway=self._gateway)
                if loop.time() - opened_at > STABLE_S:
                    self._backoff.reset()

    def _note_opening(self) -> None:
        """Report a gap before this connection."""
        now, last = datetime.now(UTC), self._store.state.connected_at
        if last is not None and now - last > MAX_GAP:
            self._receiver.report_gap(last, now)
        self.error, self._is_checked = "", True
        self._is_open.set()

    async def _mark_time(self) -> None:
        """Record regularly that a connection is open."""
        while True:
            await self._is_open.wait()
            await self._store.note_connection(datetime.now(UTC))
            await asyncio.sleep(MARK_S)

    def _note_failure(self, error: str) -> None:
        self._is_checked = False
        self.error = error
        log.warning("cannot receive messages; retrying", gateway=self._gateway, error=error)
