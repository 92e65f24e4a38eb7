"""Translate Playwright's errors into Choir's. Used by tab.py, context.py and chromium.py."""

import re

from playwright.async_api import Error
from playwright.async_api import TimeoutError as PlaywrightTimeout

from choir_common.errors import ChoirError, DeadlineExceeded, InvalidRequest, Unavailable

_GONE = (
    *("has been closed", "crashed", "Connection closed", "Browser closed", "disconnected"),
    *("Target closed", "Session closed", "detached"),
)
_NET = re.compile(r"net::(ERR_[A-Z0-9_]+)")
_SAYINGS = {
    "ERR_TOO_MANY_REDIRECTS": "it redirects endlessly",
    "ERR_ABORTED": "it is a download or an empty answer, not a page",
    "ERR_EMPTY_RESPONSE": "the server closed the connection without a response",
    "ERR_TUNNEL_CONNECTION_FAILED": "the server does not answer, or its name does not resolve",
}
_INTERRUPTED = "interrupted by another navigation"
_ELSEWHERE = (
    *("Cannot find context", "Execution context was destroyed", "No frame for given id"),
    "Inspected target navigated",
)
CRASHED = "The browser or the page crashed; it is restarted at the next call."


class NavigationInterrupted(Unavailable):
    """Another navigation, or a change of the machine's network, stopped the requested one."""


def is_gone(error: Exception) -> bool:
    """Return whether the page, its context or the whole browser no longer exists."""
    return any(sign in str(error) for sign in _GONE)


def is_download(error: Exception) -> bool:
    """Return whether the opened URL was a file, in which case the previous page is still shown."""
    return "Download is starting" in str(error) or "ERR_ABORTED" in str(error)


def has_navigated_away(error: Exception) -> bool:
    """Return whether the page navigated away before it was evaluated."""
    return any(sign in str(error) for sign in _ELSEWHERE)


def translate_error(error: Error, what: str) -> ChoirError:
    """Return the Choir error for a failed action; `what` is a URL or a description of the action."""
    if isinstance(error, PlaywrightTimeout):
        return DeadlineExceeded(f"{what} did not load in time.")
    if is_gone(error):
        return Unavailable(CRASHED)
    if _INTERRUPTED in str(error):
        return NavigationInterrupted(f"The page before {what} kept navigating; its tab was closed.")
    if "ERR_NETWORK_CHANGED" in str(error):
        # Chromium ends all loads whenever an interface comes or goes, such as a container's.
        return NavigationInterrupted(f"{what}: the network changed while it loaded.")
    if has_navigated_away(error):
        return Unavailable(f"{what} kept navigating while it was read; its tab was closed.")
    code = _NET.search(str(error))
    if "Download is starting" in str(error):
        return InvalidRequest(
            f"{what} could not be read: it is a download, not a page. Use `download`."
        )
    return InvalidRequest(
        f"{what} could not be loaded: {net_error_text(code.group(1) if code else '')}."
    )


def net_error_text(code: str) -> str:
    """Return the meaning of one of Chromium's error codes."""
    return _SAYINGS.get(code, code) or "the browser refused it"
