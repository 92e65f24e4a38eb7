"""A strict authorization server and the MCP server that it protects, over real HTTP, on one origin.

It refuses what OAuth 2.1 and the authorization chapter of MCP forbid. `faults` make it a hostile one.
"""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.support.ports import free_port

PRM = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"


@dataclass(frozen=True)
class Grant:
    """What an authorization code or a refresh token stands for."""

    client_id: str
    redirect_uri: str = ""
    challenge: str = ""
    resource: str = ""


@dataclass
class OAuthServer:
    """The server, and what it was asked."""

    origin: str
    faults: dict[str, str] = field(default_factory=dict)
    """What it says instead of the truth, by the name of the field."""
    clients: dict[str, str] = field(default_factory=dict)
    """Redirect addresses by client."""
    codes: dict[str, Grant] = field(default_factory=dict)
    refresh_tokens: dict[str, Grant] = field(default_factory=dict)
    access_tokens: set[str] = field(default_factory=set)
    token_grants: list[str] = field(default_factory=list)
    """The grants of the requests to the token endpoint."""
    revoked: list[str] = field(default_factory=list)
    """The kinds of tokens that were revoked."""

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def routes(self) -> list[Route]:
        return [
            Route("/mcp", self.mcp, methods=["POST"]),
            Route(PRM, self.protected_resource),
            Route(METADATA, self.metadata),
            Route("/register", self.register, methods=["POST"]),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
            Route("/revoke", self.revoke, methods=["POST"]),
        ]

    async def mcp(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.access_tokens:
            where = self.faults.get("metadata_url", f"{self.origin}{PRM}")
            challenge = f'Bearer resource_metadata="{where}"'
            return Response(status_code=401, headers={"WWW-Authenticate": challenge})
        return JSONResponse({"jsonrpc": "2.0", "id": 1, "result": {}})

    async def protected_resource(self, request: Request) -> Response:
        issuer = self.faults.get("authorization_server", self.origin)
        resource = self.faults.get("resource", self.url)
        return JSONResponse({"resource": resource, "authorization_servers": [issuer]})

    async def metadata(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.faults.get("issuer", self.origin),
                "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": self.faults.get("token_endpoint", f"{self.origin}/token"),
                "revocation_endpoint": f"{self.origin}/revoke",
                "registration_endpoint": f"{self.origin}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def register(self, request: Request) -> Response:
        asked: dict[str, Any] = await request.json()
        (redirect_uri,) = asked["redirect_uris"]
        if urlsplit(redirect_uri).hostname != "127.0.0.1":
            return JSONResponse({"error": "invalid_redirect_uri"}, 400)
        client_id = f"client-{len(self.clients)}"
        self.clients[client_id] = redirect_uri
        return JSONResponse({**asked, "client_id": client_id}, 201)

    async def authorize(self, request: Request) -> Response:
        """Log the person in at once."""
        asked = dict(request.query_params)
        fits = (
            asked.get("response_type") == "code"
            and self.clients.get(asked.get("client_id", "")) == asked.get("redirect_uri")
            and asked.get("code_challenge_method") == "S256"
            and len(asked.get("code_challenge", "")) >= 43
            and len(asked.get("state", "")) >= 16
            and asked.get("resource") == self.url
        )
        if not fits:
            return JSONResponse({"error": "invalid_request"}, 400)
        code = secrets.token_urlsafe(16)
        self.codes[code] = Grant(
            asked["client_id"], asked["redirect_uri"], asked["code_challenge"], asked["resource"]
        )
        answer = {"code": code, "state": self.faults.get("state", asked["state"])}
        if self.faults.get("iss") != "":
            answer["iss"] = self.faults.get("iss", self.origin)
        base = self.faults.get("redirect", asked["redirect_uri"])
        return RedirectResponse(f"{base}?{urlencode(answer)}", 302)

    async def revoke(self, request: Request) -> Response:
        asked = dict(await request.form())
        if asked.get("client_id") not in self.clients:
            return JSONResponse({"error": "invalid_client"}, 401)
        token = str(asked.get("token"))
        if self.refresh_tokens.pop(token, None) is not None or token in self.access_tokens:
            self.access_tokens.discard(token)
            self.revoked.append(str(asked.get("token_type_hint")))
        return Response()

    async def token(self, request: Request) -> Response:
        asked = dict(await request.form())
        kind = str(asked.get("grant_type"))
        self.token_grants.append(kind)
        if kind == "authorization_code":
            grant = self.codes.pop(str(asked.get("code")), None)
            digest = hashlib.sha256(str(asked.get("code_verifier")).encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            fits = (
                grant is not None
                and grant.challenge == challenge
                and grant.redirect_uri == asked.get("redirect_uri")
            )
        else:
            # a refresh token is used once
            grant = self.refresh_tokens.pop(str(asked.get("refresh_token")), None)
            fits = kind == "refresh_token" and grant is not None
        if grant is None or not fits or asked.get("client_id") != grant.client_id:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if asked.get("resource") != self.url:
            return JSONResponse({"error": "invalid_target"}, 400)
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.access_tokens.add(access)
        self.refresh_tokens[refresh] = grant
        body = {"access_token": access, "token_type": "Bearer", "refresh_token": refresh}
        return JSONResponse({**body, "expires_in": int(self.faults.get("expires_in", "3600"))})


@asynccontextmanager
async def running_oauth_server() -> AsyncIterator[OAuthServer]:
    """Serve on a free port of loopback."""
    port = free_port()
    running = OAuthServer(f"http://127.0.0.1:{port}")
    config = uvicorn.Config(
        Starlette(routes=running.routes()), host="127.0.0.1", port=port, log_level="warning"
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(60):
        while not server.started:
            await asyncio.sleep(0.02)
    yield running
    server.should_exit = True
    await serving
