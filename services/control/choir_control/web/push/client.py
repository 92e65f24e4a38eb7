"""Requests to push services: only https, only public addresses, and none that an answer can lead elsewhere.

A browser names the address, so it may be chosen by an attacker. The name is resolved once, its addresses are
checked, and the request goes to exactly the address that was checked.
"""

import asyncio
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal
from urllib.parse import SplitResult, urlsplit

import httpx2

from choir_common.egress.dialer import Dialer
from choir_common.errors import Forbidden, InvalidRequest, Unavailable

HTTPS_PORT = 443
MAX_ENDPOINT = 1000
TIMEOUT_S = 10.0
MAX_PAUSE_S = 3600.0
DEFAULT_PAUSE_S = 60.0
REFUSAL = (
    "endpoint: must be the https address of a push service on the internet. The operator can allow one of "
    "the own network with CHOIR_WEB_PUSH_ALLOW."
)


@dataclass(frozen=True, slots=True)
class PushRequest:
    """A push message, ready to be sent."""

    endpoint: str
    body: bytes
    authorization: str
    topic: str
    """A later message with the same topic replaces one that the push service still has."""
    urgency: Literal["normal", "high"]
    ttl_s: int


@dataclass(frozen=True, slots=True)
class PushOutcome:
    """What the push service answered."""

    status: Literal["sent", "gone", "failed"]
    """`gone`: the subscription has ended."""
    detail: str = ""
    pause_s: float = 0.0
    """Send nothing to this subscription for so long."""


class PushClient:
    """Client of the push services of all browsers."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._tls: ssl.SSLContext | None = None

    async def check_endpoint(self, endpoint: str) -> None:
        """Raise InvalidRequest unless the address may be sent to.

        The same text for all reasons: it must not tell which names of the own network exist.
        """
        try:
            await self._addresses(_parse(endpoint))
        except (Forbidden, Unavailable, InvalidRequest) as error:
            raise InvalidRequest(REFUSAL) from error

    async def send(self, request: PushRequest) -> PushOutcome:
        """Send a message once, within 10 seconds. The answer's body is not read."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._send(request)
        except (Forbidden, Unavailable, InvalidRequest) as error:
            return PushOutcome("failed", error.message, DEFAULT_PAUSE_S)
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            return PushOutcome("failed", type(error).__name__, DEFAULT_PAUSE_S)

    async def _send(self, request: PushRequest) -> PushOutcome:
        parts = _parse(request.endpoint)
        address = (await self._addresses(parts))[0]
        if self._tls is None:  # reads the certificates of the system, 30 ms
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        host = f"[{address}]" if ":" in address else address
        url = parts._replace(netloc=f"{host}:{parts.port or HTTPS_PORT}").geturl()
        headers = {
            "Host": parts.netloc,
            "Authorization": request.authorization,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(request.ttl_s),
            "Topic": request.topic,
            "Urgency": request.urgency,
        }
        client = httpx2.AsyncClient(verify=self._tls, trust_env=False, timeout=TIMEOUT_S)
        async with client:
            outgoing = client.build_request("POST", url, headers=headers, content=request.body)
            # the certificate must be that of the name, and not of the address
            outgoing.extensions = {**outgoing.extensions, "sni_hostname": parts.hostname}
            answer = await client.send(outgoing, stream=True, follow_redirects=False)
            await answer.aclose()
        return _outcome(answer)

    async def _addresses(self, parts: SplitResult) -> list[str]:
        """Return the addresses that may be dialled; raises as `Dialer.permitted_addresses` does."""
        host, port = parts.hostname or "", parts.port or HTTPS_PORT
        addresses = await self._dialer.permitted_addresses(host, port)
        allow = self._dialer.allow
        # other ports of public hosts, too, are nobody's push service: Choir is no port scanner
        if port != HTTPS_PORT and not any(allow.covers(host, it, port) for it in addresses):
            raise Forbidden("Push services are reached at port 443.")
        return [str(address) for address in addresses]


def _parse(endpoint: str) -> SplitResult:
    """Return the parts of an address; raises InvalidRequest unless it is plain https."""
    is_plain = endpoint.isascii() and endpoint.isprintable() and " " not in endpoint
    if len(endpoint) > MAX_ENDPOINT or not is_plain or "\\" in endpoint:
        raise InvalidRequest(REFUSAL)
    try:
        parts = urlsplit(endpoint)
        is_valid = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise InvalidRequest(REFUSAL) from error
    if not is_valid or "@" in parts.netloc or parts.fragment:
        raise InvalidRequest(REFUSAL)
    return parts


def _outcome(answer: httpx2.Response) -> PushOutcome:
    status = answer.status_code
    if answer.is_success:
        return PushOutcome("sent")
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return PushOutcome("gone", f"status {status}")
    seconds = answer.headers.get("retry-after", "")
    wait_s = float(seconds) if seconds.isascii() and seconds.isdigit() else DEFAULT_PAUSE_S
    return PushOutcome("failed", f"status {status}", min(wait_s, MAX_PAUSE_S))
