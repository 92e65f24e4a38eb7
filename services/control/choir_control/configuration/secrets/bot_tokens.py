"""Delivery of the bots' tokens to the gateway's HTTP endpoint; they never travel over NATS.

The gateway reports its token version whenever it reads its channels. If that is not the version in
force, control sends the tokens of its bots, and nothing else. A gateway that restarted or missed a
change therefore has them after its next poll.
"""

import asyncio
from typing import Protocol

import httpx2
import structlog

from choir_common.http.response_parser import read_problem
from choir_common.wire.config_api import BotTokens
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore

log = structlog.get_logger("choir.secrets")

PATH = "/v1/channels/tokens"
TIMEOUT_S = 5.0


class CertificateSource(Protocol):
    """TCP listener of control, as seen by its clients."""

    def trust(self) -> str:
        """Return the certificates (PEM) that clients trust; empty for plain HTTP."""


class BotTokenPublisher:
    """Sender of bot tokens, on demand; after a failure it waits for the gateway's next request."""

    def __init__(
        self,
        *,
        gateway: httpx2.AsyncClient,
        configuration: ConfigService,
        secrets: SecretStore,
        certificates: CertificateSource,
    ) -> None:
        self._gateway = gateway
        self._configuration = configuration
        self._secrets = secrets
        self._certificates = certificates
        self._delivery_due = asyncio.Event()
        self.reported_version: int | None = None
        """The token version that the gateway reported last."""
        self.failure = ""
        """The error of the last delivery; empty if it succeeded."""

    def record_version(self, version: int) -> None:
        """Store the version that the gateway reported, and start a delivery if it is not current."""
        self.reported_version = version
        if version != self._configuration.current.version:
            self._delivery_due.set()

    async def run(self) -> None:
        """Deliver tokens on demand until cancelled."""
        while True:
            await self._delivery_due.wait()
            self._delivery_due.clear()
            try:
                self.failure = await self._deliver()
            except httpx2.HTTPError as error:
                self.failure = f"the gateway does not answer ({type(error).__name__})"
            except Exception:  # outermost loop: the gateway asks again
                log.exception("bot tokens not delivered")
                self.failure = "delivering the bots' tokens failed; see choird's log"
            if self.failure:
                log.warning("bot tokens not delivered", error=self.failure)

    async def _deliver(self) -> str:
        tokens = self._collect()
        response = await self._gateway.put(
            PATH,
            content=tokens.model_dump_json(),
            headers={"Content-Type": "application/json"},
            timeout=TIMEOUT_S,
        )
        if response.is_error:
            return read_problem(response.status_code, response.content).message
        self.reported_version = tokens.version
        return ""

    def _collect(self) -> BotTokens:
        """Return the bot tokens and webhook secrets of the version in force."""
        snapshot = self._configuration.current
        names = {name for g in snapshot.config.gateways.values() for name in g.secrets}
        return BotTokens(
            version=snapshot.version,
            tokens=self._secrets.get_known(names),
            control_ca=self._certificates.trust(),
        )
