"""Middleware that answers `/v1` requests with an error while Postgres hangs."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.http.responses import problem_response
from choir_common.i18n import _
from choir_control.api.readiness import ReadinessChecks

PREFIX = "/v1/"
TIMEOUT_S = 6.0
RETRY_AFTER_S = 5.0
SAFE_METHODS = ("GET", "HEAD")


class DatabaseTimeoutMiddleware:
    """Reports that Postgres hangs once a request has waited for it for `TIMEOUT_S`.

    The request itself continues in the background: a statement that was sent may still be executed.
    """

    def __init__(self, app: ASGIApp, readiness: ReadinessChecks) -> None:
        self._app = app
        self._readiness = readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, or send the error response in its place."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        answered = given_up = False

        async def noted(message: Message) -> None:
            nonlocal answered
            # A late response must not follow the error that was already sent.
            if not given_up:
                answered = True
                await send(message)

        request_task = asyncio.ensure_future(self._app(scope, receive, noted))
        try:
            await asyncio.wait((request_task,), timeout=TIMEOUT_S)
            if not (request_task.done() or answered):
                postgres = await self._readiness.postgres_status()
                if not (postgres.ok or request_task.done() or answered):
                    given_up = True
                    await _refusal(scope["method"], postgres.detail)(scope, receive, send)
            # Also after an error response: the statement may be executing and must not be cut off.
            await request_task
        finally:
            request_task.cancel()


def _refusal(method: str, why: str) -> ASGIApp:
    if method in SAFE_METHODS:
        error = Unavailable(
            _("Postgres hangs: {why}.").format(why=why), retry_after_s=RETRY_AFTER_S
        )
    else:
        error = OutcomeUnknown(
            _(
                "Postgres hangs: {why}. The outcome is unknown; repeating the request under the same "
                "idempotency key is safe, if it has one."
            ).format(why=why),
            retry_after_s=RETRY_AFTER_S,
        )
    return problem_response(error)
