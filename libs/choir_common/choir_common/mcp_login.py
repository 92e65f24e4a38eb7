"""The stored login at an MCP server by URL (OAuth 2.1), and the renewal of its token. Pure.

Both are secrets of Choir: the token under `oauth_token_secret(url)`, which the agent's requests to this URL
contain, and the login under a second name, which only control and choirctl read.
"""

from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from pydantic import ConfigDict, Field, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.mcp_config import oauth_token_secret
from choir_common.wire.model import WireModel

RENEW_BEFORE_S = 300.0
"""A token is renewed so long before its end."""
DEFAULT_LIFETIME_S = 3_600


class McpLogin(WireModel):
    """What is needed to renew the token of a server."""

    url: str
    """The server; a login is used for no other one."""
    issuer: str
    token_endpoint: str
    client_id: str
    client_secret: str | None = None
    auth_method: str | None = None
    """How the client authenticates: `client_secret_basic`, `client_secret_post`, or none."""
    resource: str
    """The server, as the authorization server knows it (RFC 8707)."""
    refresh_token: str | None = None
    expires_at: float
    """The end of the token, in seconds since the epoch."""
    revocation_endpoint: str | None = None
    """Where `mcp logout` ends the tokens (RFC 7009); None: the server has none."""
    private_hosts: str = ""
    """`host:port` of authorization servers at private addresses that the operator allowed."""

    def is_due(self, now: float) -> bool:
        """Return whether the token should be renewed, and can be."""
        return self.refresh_token is not None and now >= self.expires_at - RENEW_BEFORE_S


class TokenAnswer(WireModel):
    """The part of a token response that is used; servers add other fields."""

    model_config = ConfigDict(extra="ignore", strict=False)

    access_token: str = Field(min_length=1, max_length=20_000)
    refresh_token: str | None = Field(default=None, max_length=20_000)
    expires_in: int | None = None


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A request to the token endpoint."""

    url: str
    fields: dict[str, str]
    headers: dict[str, str]


def login_secret(url: str) -> str:
    """Return the name of the secret that is the login at a server."""
    return f"{oauth_token_secret(url)}-login"


def read_login(text: str | None, url: str) -> McpLogin | None:
    """Return the login at a server from its secret; None if there is none, or one for another server."""
    try:
        login = McpLogin.model_validate_json(text) if text else None
    except ValidationError:
        return None
    return login if login is not None and login.url == url else None


def renewal_request(login: McpLogin) -> TokenRequest:
    """Return the request that renews the token (RFC 6749, section 6)."""
    fields = {
        "grant_type": "refresh_token",
        "refresh_token": login.refresh_token or "",
        "resource": login.resource,
    }
    return _as_client(login, login.token_endpoint, fields)


def revocation_requests(login: McpLogin, access_token: str | None) -> tuple[TokenRequest, ...]:
    """Return the requests that end the tokens of a login; none if its server cannot do that.

    The refresh token is the first: many servers end its access tokens with it.
    """
    if login.revocation_endpoint is None:
        return ()
    tokens = {"refresh_token": login.refresh_token, "access_token": access_token}
    return tuple(
        _as_client(login, login.revocation_endpoint, {"token": token, "token_type_hint": kind})
        for kind, token in tokens.items()
        if token
    )


def _as_client(login: McpLogin, url: str, fields: dict[str, str]) -> TokenRequest:
    """Return a request with the client's authentication (RFC 6749, section 2.3)."""
    fields = fields | {"client_id": login.client_id}
    headers = {"Accept": "application/json"}
    if login.client_secret and login.auth_method == "client_secret_basic":
        pair = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        del fields["client_id"]
    elif login.client_secret:
        fields["client_secret"] = login.client_secret
    return TokenRequest(url, fields, headers)


def renewed_login(login: McpLogin, body: bytes, now: float) -> tuple[str, McpLogin]:
    """Return the new token and the login with it; raises InvalidRequest for an invalid answer."""
    try:
        answer = TokenAnswer.model_validate_json(body)
    except ValidationError:
        raise InvalidRequest(_("The authorization server's answer has no token.")) from None
    changes = {
        "refresh_token": answer.refresh_token or login.refresh_token,
        "expires_at": now + (answer.expires_in or DEFAULT_LIFETIME_S),
    }
    return answer.access_token, login.model_copy(update=changes)


def allowed_hosts(url: str, private_hosts: str) -> str:
    """Return what a login may reach besides public addresses, as an allowlist: the server itself first."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return ",".join(filter(None, (f"{host}:{port}", private_hosts)))
