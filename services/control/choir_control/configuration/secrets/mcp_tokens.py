"""Renewal of the tokens of MCP servers, before they end.

Agents have placeholders of the tokens, or fetch them again as after `secret apply`.
"""

import asyncio
from collections.abc import Iterator

import httpx2
import structlog

from choir_common.clock import Clock
from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import Dialer
from choir_common.errors import ChoirError, InvalidRequest
from choir_common.http.guarded_transport import GuardedTransport
from choir_common.i18n import _
from choir_common.mcp_login import (
    McpLogin,
    allowed_hosts,
    login_secret,
    read_login,
    renewal_request,
    renewed_login,
)
from choir_common.wire.mcp_config import oauth_token_secret
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.reload import SecretReloader
from choir_control.configuration.secrets.store import SecretStore
from choir_control.configuration.secrets.writer import SecretWriter

log = structlog.get_logger("choir.secrets")

RENEWAL_INTERVAL_S = 60.0
MAX_ANSWER_BYTES = 100_000
TIMEOUT_S = 20.0


class McpTokenRenewer:
    """Renews tokens and stores them in secrets.json."""

    def __init__(
        self,
        configuration: ConfigService,
        secrets: SecretStore,
        *,
        writer: SecretWriter,
        reloader: SecretReloader,
        clock: Clock,
    ) -> None:
        self._configuration, self._secrets = configuration, secrets
        self._writer, self._reloader, self._clock = writer, reloader, clock
        self._turn = asyncio.Lock()
        self._refused: set[str] = set()
        """Renewals that the authorization server refused: only a new login helps."""

    async def sweep(self) -> int:
        """Renew the tokens that end soon; return how many."""
        async with self._turn:
            return await self._sweep()

    async def _sweep(self) -> int:
        count = 0
        for name, login in self._due_logins():
            try:
                token, renewed = await self._renew(login)
            except (ChoirError, httpx2.HTTPError) as error:
                log.warning("token not renewed", server=name, issuer=login.issuer, error=str(error))
                continue
            # The login first: with the old one, a used refresh token would end all of them.
            await self._writer.store(login_secret(login.url), renewed.model_dump_json())
            await self._writer.store(oauth_token_secret(login.url), token)
            count += 1
        if count:
            await self._reloader.apply()
        return count

    def _due_logins(self) -> Iterator[tuple[str, McpLogin]]:
        now = self._clock.now().timestamp()
        urls: set[str] = set()
        for name, server in self._configuration.current.config.mcp.servers.items():
            if server.url is None or not server.oauth or server.url in urls:
                continue
            urls.add(server.url)
            login = read_login(self._secrets.get(login_secret(server.url)), server.url)
            if login is not None and login.is_due(now) and login.refresh_token not in self._refused:
                yield name, login

    async def _renew(self, login: McpLogin) -> tuple[str, McpLogin]:
        """Return the new token and login; raises InvalidRequest if it is refused."""
        request = renewal_request(login)
        hosts = allowed_hosts(login.url, login.private_hosts)
        dialer = Dialer(parse_allowlist(hosts, "choirctl mcp login --private-host"))
        async with httpx2.AsyncClient(
            transport=GuardedTransport(dialer), timeout=TIMEOUT_S, trust_env=False
        ) as client:
            response = await client.post(
                request.url, data=request.fields, headers=request.headers, follow_redirects=False
            )
        if response.status_code in (400, 401):
            self._refused.add(login.refresh_token or "")
            raise InvalidRequest(
                _("it was refused ({status_code}): run `choirctl mcp login` again.").format(
                    status_code=response.status_code
                )
            )
        if not response.is_success or len(response.content) > MAX_ANSWER_BYTES:
            raise InvalidRequest(
                _("the token endpoint answered {status_code}.").format(
                    status_code=response.status_code
                )
            )
        return renewed_login(login, response.content, self._clock.now().timestamp())
