"""Login at an MCP server by URL (OAuth 2.1), with the SDK's client: discovery, registration, PKCE, resource.

The SDK checks the issuer of metadata and of the redirect (RFC 8414, 9207), and that the metadata is about
this server (RFC 9728). Here are the network, because metadata of strangers must not lead to private
addresses, and the redirect. Imports the SDK `mcp`, which takes a second.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import Dialer
from choir_common.errors import ChoirError, Conflict, Forbidden, InvalidRequest, Unavailable
from choir_common.escape_text import escape_hidden
from choir_common.http.guarded_transport import GuardedTransport
from choir_common.i18n import _
from choir_common.mcp_login import (
    DEFAULT_LIFETIME_S,
    McpLogin,
    allowed_hosts,
    revocation_requests,
)
from choirctl.api.oauth_redirect import Redirect

PROTOCOL_VERSION = "2025-11-25"
REVOKE_TIMEOUT_S = 20.0
SETTING = "choirctl mcp login --private-host"
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "choirctl", "version": "1"},
    },
}
_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": PROTOCOL_VERSION,
}

# The SDK logs each failed login with a stack trace; the error says it all.
logging.getLogger("mcp").addHandler(logging.NullHandler())

AskBrowser = Callable[[str, str], Awaitable[Redirect]]
"""Shows an address to a person and returns the redirect with a `state`."""


class _MemoryStorage:
    """What the SDK stores during one login."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclass(frozen=True, slots=True)
class NewLogin:
    """The result of a login."""

    token: str
    login: McpLogin


async def log_in_at(
    url: str, redirect_uri: str, ask_browser: AskBrowser, private_hosts: str = ""
) -> NewLogin:
    """Log in at a server and return the token.

    Raises Conflict if the server wants no login, Forbidden for anything that is not as the protocol says,
    Unavailable if a server cannot be reached.
    """
    storage, state = _MemoryStorage(), [""]
    allow = parse_allowlist(allowed_hosts(url, private_hosts), SETTING)

    async def show(address: str) -> None:
        _check_address(address)
        state[0] = parse_qs(urlsplit(address).query).get("state", [""])[0]
        state.append(address)

    async def receive() -> AuthorizationCodeResult:
        redirect = await ask_browser(state[1], state[0])
        return AuthorizationCodeResult(
            code=redirect.code, state=redirect.state, iss=redirect.issuer
        )

    provider = OAuthClientProvider(
        url,
        OAuthClientMetadata(
            client_name="Choir",
            redirect_uris=[AnyUrl(redirect_uri)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            token_endpoint_auth_method="none",  # noqa: S106 - a program on a person's machine has no secret
        ),
        storage,
        redirect_handler=show,
        callback_handler=receive,
    )
    await _provoke(url, provider, GuardedTransport(Dialer(allow)))
    return _new_login(url, provider, storage, private_hosts)


async def _provoke(url: str, provider: OAuthClientProvider, transport: GuardedTransport) -> None:
    """Send a request that the server answers with 401, which starts the SDK's login."""
    try:
        async with httpx2.AsyncClient(
            transport=transport, auth=provider, headers=_HEADERS, timeout=30.0, trust_env=False
        ) as client:
            response = await client.post(url, json=_HELLO, follow_redirects=False)
    except ChoirError:
        raise
    except OAuthFlowError as error:
        raise Forbidden(_("The login failed: {text}").format(text=_text(error))) from error
    except httpx2.HTTPError as error:
        raise Unavailable(_("The login failed: {text}").format(text=_text(error))) from error
    except ValueError as error:
        raise Forbidden(_("The login failed: a server's answer is not valid.")) from error
    if response.status_code in (401, 403):
        raise Forbidden(
            _("{url} does not accept the token ({status_code}).").format(
                url=url, status_code=response.status_code
            )
        )


def _new_login(
    url: str, provider: OAuthClientProvider, storage: _MemoryStorage, private_hosts: str
) -> NewLogin:
    tokens, client, metadata = storage.tokens, storage.client, provider.context.oauth_metadata
    if tokens is None or client is None:
        raise Conflict(
            _("{url} answers without a login, so there is nothing to do.").format(url=url)
        )
    if metadata is None:
        raise Forbidden(_("The server names no authorization server (RFC 9728, RFC 8414)."))
    login = McpLogin(
        url=url,
        issuer=str(metadata.issuer),
        token_endpoint=str(metadata.token_endpoint),
        client_id=client.client_id or "",
        client_secret=client.client_secret,
        auth_method=client.token_endpoint_auth_method,
        resource=provider.context.get_resource_url(),
        refresh_token=tokens.refresh_token,
        expires_at=time.time() + (tokens.expires_in or DEFAULT_LIFETIME_S),
        revocation_endpoint=_text_or_none(metadata.revocation_endpoint),
        private_hosts=private_hosts,
    )
    return NewLogin(tokens.access_token, login)


async def revoke_tokens(login: McpLogin, access_token: str | None) -> bool:
    """End the tokens of a login at its server; return False if the server has no way to do that.

    Raises Unavailable if it cannot be reached, Forbidden if it refuses.
    """
    requests = revocation_requests(login, access_token)
    allow = parse_allowlist(allowed_hosts(login.url, login.private_hosts), SETTING)
    transport = GuardedTransport(Dialer(allow))
    async with httpx2.AsyncClient(
        transport=transport, timeout=REVOKE_TIMEOUT_S, trust_env=False
    ) as client:
        for request in requests:
            try:
                response = await client.post(
                    request.url, data=request.fields, headers=request.headers
                )
            except httpx2.HTTPError as error:
                raise Unavailable(
                    _("{issuer} cannot be reached: {text}").format(
                        issuer=login.issuer, text=_text(error)
                    )
                ) from error
            if not response.is_success:
                raise Forbidden(
                    _("{issuer} answered {status_code}.").format(
                        issuer=login.issuer, status_code=response.status_code
                    )
                )
    return bool(requests)


def _text_or_none(address: AnyUrl | None) -> str | None:
    return None if address is None else str(address)


def _text(error: Exception) -> str:
    """Return an error's text, which may quote a stranger's metadata."""
    return escape_hidden(str(error)[:400], keep="")


def _check_address(address: str) -> None:
    """Raise InvalidRequest for an address that no person should open."""
    parts = urlsplit(address)
    is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if not address.isprintable() or parts.username or not (parts.scheme == "https" or is_local):
        raise InvalidRequest(_("The address of the login is not https."))
