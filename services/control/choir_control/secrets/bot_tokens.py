"""Hand the bots' tokens to the gateway over its own door: they never travel over the bus.

The gateway says which version it has whenever it asks for its channels (`bus_doors`); if that is not the
one in force it is given the tokens of its bots, and nothing else. So one that was restarted, or
missed a change, has them within one of its rounds. Run by `app`.
"""

import asyncio
from collections.abc import Callable

import httpx2
import structlog

from choir_common.http.problem_document import read_problem
from choir_common.wire.configuring import BotTokens

log = structlog.get_logger("choir.secrets")

PATH = "/v1/channels/tokens"
TIMEOUT_S = 5.0


class BotTokenCourier:
    """Brings tokens when they are wanted; a failure waits for the gateway's next question."""

    def __init__(self, gateway: httpx2.AsyncClient, parcel: Callable[[], BotTokens]) -> None:
        self._gateway = gateway
        self._parcel = parcel
        self._wanted = asyncio.Event()
        self.has: int | None = None
        """The version the gateway last said it has."""
        self.failure = ""
        """Why the last delivery failed."""

    def heard(self, version: int) -> None:
        """Note what the gateway says it has; a delivery is on its way if that is old."""
        self.has = version
        if version != self._parcel().version:
            self._wanted.set()

    async def run(self) -> None:
        """Deliver whenever it is wanted, for ever."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                self.failure = await self._deliver()
            except httpx2.HTTPError as error:
                self.failure = f"the gateway does not answer ({type(error).__name__})"
            except Exception:  # the outermost loop: the gateway asks again
                log.exception("bot tokens not delivered")
                self.failure = "delivering the bots' tokens failed; see choird's log"
            if self.failure:
                log.warning("bot tokens not delivered", why=self.failure)

    async def _deliver(self) -> str:
        parcel = self._parcel()
        answer = await self._gateway.put(
            PATH,
            content=parcel.model_dump_json(),
            headers={"Content-Type": "application/json"},
            timeout=TIMEOUT_S,
        )
        if answer.is_error:
            return read_problem(answer.status_code, answer.content).message
        self.has = parcel.version
        return ""
