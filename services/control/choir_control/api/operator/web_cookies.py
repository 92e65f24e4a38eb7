"""The cookie of the web page, and the check of requests that have it."""

import re

from fastapi import Request, Response

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_control.api.operator.web_origins import WebOrigins
from choir_control.web.service import LIFETIME, WebSessionService
from choir_control.web.store import WebSession

COOKIE = "choir_web"
KEY_HEADER = "x-choir-page-key"
SAFE_METHODS = ("GET", "HEAD")
PATH = re.compile(r"/([A-Za-z0-9._~-]+/)*")
MAX_PATH = 200


class WebCookies:
    """Reads, checks and sets the cookie of browser sessions."""

    def __init__(self, sessions: WebSessionService, origins: WebOrigins) -> None:
        self._sessions = sessions
        self._origins = origins

    def read(self, request: Request) -> str | None:
        """Return the token in the cookie of a request, or None."""
        return request.cookies.get(_cookie_name(request))

    async def authenticate(self, request: Request, token: str) -> WebSession:
        """Return the session of a request.

        Browsers send a cookie to all ports of a host, and with forms of other pages. So the cookie is worth
        nothing without the key that only our page knows. Raises Unauthorized for an invalid session or key,
        and Forbidden for a wrong Host or Origin.
        """
        self._origins.check(request.headers, changing=request.method not in SAFE_METHODS)
        return await self._sessions.authenticate(token, request.headers.get(KEY_HEADER, ""))

    def set(self, request: Request, response: Response, token: str, path: str) -> None:
        """Add the cookie to a response; `path` is the path of the endpoint as the browser sees it."""
        response.set_cookie(
            _cookie_name(request),
            token,
            max_age=int(LIFETIME.total_seconds()),
            path=path,
            httponly=True,
            samesite="strict",
            # behind a proxy that ends TLS only the browser knows; the origin was checked before
            secure=_is_secure(request),
        )

    def remove(self, request: Request, response: Response, path: str) -> None:
        """Let the browser delete the cookie."""
        response.delete_cookie(
            _cookie_name(request),
            path=path if PATH.fullmatch(path[:MAX_PATH]) else "/",
            httponly=True,
            samesite="strict",
            secure=_is_secure(request),
        )


def check_path(path: str) -> None:
    """Raise InvalidRequest for an invalid path of a cookie."""
    if len(path) > MAX_PATH or not PATH.fullmatch(path):
        raise InvalidRequest(_("path: must begin and end with a slash, such as / or /choir/."))


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")


def _cookie_name(request: Request) -> str:
    """Return the name of the cookie: browsers send the same cookies to all ports of a host."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdigit() else COOKIE
