"""Say in Choir's words what Playwright reports. Used by tab.py, room.py and chromium.py."""

import re

from playwright.async_api import Error
from playwright.async_api import TimeoutError as PlaywrightTimeout

from choir_common.errors import BadInput, ChoirError, DeadlineExceeded, Unavailable

_GONE = (
    *("has been closed", "crashed", "Connection closed", "Browser closed", "disconnected"),
    *("Target closed", "Session closed", "detached"),
)
_NET = re.compile(r"net::(ERR_[A-Z0-9_]+)")
_SAYINGS = {
    "ERR_TOO_MANY_REDIRECTS": "it redirects without end",
    "ERR_ABORTED": "it is a download or an empty answer, not a page",
    "ERR_EMPTY_RESPONSE": "the server hung up without an answer",
    "ERR_TUNNEL_CONNECTION_FAILED": "the server does not answer, or its name does not resolve",
}
_INTERRUPTED = "interrupted by another navigation"
_ELSEWHERE = (
    *("Cannot find context", "Execution context was destroyed", "No frame for given id"),
    "Inspected target navigated",
)
CRASHED = "The browser or the page crashed; it is replaced at the next call."


def is_gone(error: Exception) -> bool:
    """Tell whether the page, its context or the whole browser is no more."""
    return any(sign in str(error) for sign in _GONE)


def is_download(error: Exception) -> bool:
    """Tell whether what was opened was a file, so that the page before it is still there."""
    return "Download is starting" in str(error) or "ERR_ABORTED" in str(error)


def is_interrupted(error: BaseException | None) -> bool:
    """Tell whether the page that was to be left went elsewhere itself meanwhile."""
    return _INTERRUPTED in str(error)


def is_elsewhere(error: Exception) -> bool:
    """Tell whether the page that was asked something had already made room for the next one."""
    return any(sign in str(error) for sign in _ELSEWHERE)


def translate(error: Error, what: str) -> ChoirError:
    """Give the Choir error behind what failed; `what` is an address, or an action in words."""
    if isinstance(error, PlaywrightTimeout):
        return DeadlineExceeded(f"{what} did not load in time.")
    if is_gone(error):
        return Unavailable(CRASHED)
    if is_interrupted(error):
        return Unavailable(f"The page before {what} kept going elsewhere; its tab was closed.")
    if is_elsewhere(error):
        return Unavailable(f"{what} kept going elsewhere while it was read; its tab was closed.")
    found = _NET.search(str(error))
    if "Download is starting" in str(error):
        return BadInput(f"{what} could not be read: it is a download, not a page. Use `download`.")
    return BadInput(f"{what} could not be loaded: {reason_of(found.group(1) if found else '')}.")


def reason_of(code: str) -> str:
    """Say what one of Chromium's codes means."""
    return _SAYINGS.get(code, code) or "the browser refused it"
