"""Errors in OpenAI's shape: a middleware that rewrites the problem documents of `/openai/`.

So that also errors of the framework and of other middleware, such as 404 and 413, have it.
"""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from choir_common.http.response_parser import CONTENT_TYPE

PREFIX = "/openai/"
MAX_PROBLEM = 100_000
FAILED = "agent_error"
"""The code of an answer that is an error."""
FINAL_CODES = frozenset({FAILED, "insufficient_quota"})
"""Codes of errors that a repetition does not change."""
_PARAMETER = re.compile(r"^(?:body\.)?([a-z_]+(?:[.\[][a-z0-9_.\[\]-]*)?): ")
"""Messages about one field begin with its name."""
_CODES: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "invalid_api_key",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_exceeded",
}


def error_body(status: int, code: str, message: str) -> bytes:
    """Return the JSON of an error."""
    field = _PARAMETER.match(message)
    is_model = status == HTTPStatus.NOT_FOUND and message.startswith("model: ")
    is_response = message.startswith("previous_response_id: ")
    if is_model:
        code = "model_not_found"
    elif is_response:
        code = "previous_response_not_found"
    error = {
        "message": message,
        "type": _type_of(status),
        "param": field[1] if field else None,
        "code": code if code in FINAL_CODES else _CODES.get(status, code),
    }
    return json.dumps({"error": error}).encode()


class OpenAIErrorMiddleware:
    """Replaces problem documents below `/openai/` by OpenAI's errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, and rewrite an error that it sends."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        head: Message | None = None
        body = bytearray()

        async def send_rewritten(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start" and _is_problem(message):
                head = message  # its length is not known yet
                return
            if head is None:
                await send(message)
                return
            body.extend(message.get("body", b"")[: MAX_PROBLEM - len(body)])
            if not message.get("more_body", False):
                new_head, content = _rewrite(head, bytes(body))
                await send(new_head)
                await send({"type": "http.response.body", "body": content})

        await self._app(scope, receive, send_rewritten)


def _is_problem(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(CONTENT_TYPE.encode())
        for name, value in message.get("headers", ())
    )


def _rewrite(head: Message, body: bytes) -> tuple[Message, bytes]:
    problem, status = json.loads(body), head["status"]
    content = error_body(status, str(problem["code"]), str(problem["detail"]))
    replaced = (b"content-type", b"content-length")
    others = [it for it in head["headers"] if it[0].lower() not in replaced]
    own = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
    if problem["code"] in FINAL_CODES:
        own.append((b"x-should-retry", b"false"))  # the same request gets the same answer
    return {**head, "headers": [*others, *own]}, content


def _type_of(status: int) -> str:
    match status:
        case HTTPStatus.TOO_MANY_REQUESTS:
            return "rate_limit_error"
        case HTTPStatus.FORBIDDEN:
            return "permission_error"
        case _ if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return "server_error"
        case _:
            return "invalid_request_error"
