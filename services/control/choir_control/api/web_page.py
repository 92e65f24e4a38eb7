"""Reverse proxy of the web page's files, `/web/`, to the gateway. They contain nothing secret."""

from typing import Annotated

import httpx2
from fastapi import APIRouter, Path, Request
from fastapi.responses import RedirectResponse, Response

from choir_common.errors import Unavailable
from choir_common.http.client import await_unless_hung
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _

# No part begins with a dot: `..` would lead to the gateway's other routes, with control's token.
AssetPath = Annotated[
    str,
    Path(max_length=200, pattern=r"^(service-worker\.js|assets(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+)?$"),
]
FORWARDED = ("accept-encoding", "if-none-match")
NOT_RETURNED = ("connection", "date", "server", "transfer-encoding", "keep-alive")


def web_page_routes(gateway: httpx2.AsyncClient) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(include_in_schema=False)

    @router.get("/")
    async def redirect() -> RedirectResponse:
        """Lead to the web page, relative, so that the prefix of a reverse proxy stays."""
        return RedirectResponse("web/")

    @router.get("/web/{path:path}")
    async def read_file(path: AssetPath, request: Request) -> Response:
        """Return a file of the web page, compressed as the gateway sends it."""
        outgoing = gateway.build_request(
            "GET",
            f"/web/{path}",
            headers={
                # the client would ask for encodings that the browser does not know
                "accept-encoding": "identity",
                **{name: request.headers[name] for name in FORWARDED if name in request.headers},
            },
        )
        try:
            answer = await await_unless_hung(gateway, gateway.send(outgoing, stream=True))
            try:
                body = b"".join([piece async for piece in answer.aiter_raw()])
            finally:
                await answer.aclose()
        except httpx2.HTTPError as error:
            raise Unavailable(
                _("The gateway is unavailable: it is starting. Try again."), retry_after_s=1.0
            ) from error
        headers = {k: v for k, v in answer.headers.items() if k.lower() not in NOT_RETURNED}
        return Response(body, answer.status_code, headers=headers)

    return router
