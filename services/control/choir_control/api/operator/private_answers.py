"""Middleware that forbids browsers to store answers of `/v1`, or to guess their type."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "/v1/"
FROM_BROWSERS = (b"cookie", b"origin", b"sec-fetch-site")
"""Headers that tell a browser; other clients have no cache."""
HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
REPLACED = frozenset(name for name, _ in HEADERS)


class PrivateAnswersMiddleware:
    """Adds `Cache-Control: no-store` and `X-Content-Type-Options: nosniff` to answers for browsers.

    Also to errors and to the answer of the sign-in, which has the page's key.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; add the headers if the request comes from a browser."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        if not any(name in FROM_BROWSERS for name, _ in scope["headers"]):
            await self._app(scope, receive, send)
            return

        async def send_private(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [it for it in message.get("headers", ()) if it[0].lower() not in REPLACED]
                message = {**message, "headers": [*own, *HEADERS]}
            await send(message)

        await self._app(scope, receive, send_private)
