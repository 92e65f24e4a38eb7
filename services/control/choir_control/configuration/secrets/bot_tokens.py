"""Delivery of the bots' tokens to the gateway's HTTP endpoint; they never travel over NATS.

The gateway reports its token version whenever it reads its channels (`bus_doors`). If that is not
the version in force, control sends the tokens of its bots, and nothing else. A gateway that
restarted or missed a change therefore has them after its next poll. Run by `app`.
"""

import asyncio
from collections.abc import Callable

import httpx2
import structlog

from choir_common.http.problem_document import read_problem
from choir_common.wire.config_api import BotTokens

log = structlog.get_logger("choir.secrets")

PATH = "/v1/channels/tokens"
TIMEOUT_S = 5.0


class BotTokenPublisher:
    """Sender of bot tokens, on demand; after a failure it waits for the gateway's next request."""

    def __init__(self, gateway: httpx2.AsyncClient, parcel: Callable[[], BotTokens]) -> None:
        self._gateway = gateway
        self._parcel = parcel
        self._wanted = asyncio.Event()
        self.has: int | None = None
        """The token version that the gateway reported last."""
        self.failure = ""
        """The error of the last delivery; empty if it succeeded."""

    def heard(self, version: int) -> None:
        """Store the version that the gateway reported, and start a delivery if it is not current."""
        self.has = version
        if version != self._parcel().version:
            self._wanted.set()

    async def run(self) -> None:
        """Deliver tokens on demand until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                self.failure = await self._deliver()
            except httpx2.HTTPError as error:
                self.failure = f"the gateway does not answer ({type(error).__name__})"
            except Exception:  # outermost loop: the gateway asks again
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
