"""The redirect of a browser after a login (OAuth): a server on loopback, or an address that is pasted."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from choir_common.errors import DeadlineExceeded, Forbidden, InvalidRequest
from choir_common.i18n import _

PATH = "/callback"
LOOPBACK = "127.0.0.1"
MAX_HEAD = 16_000
READ_WITHIN_S = 10.0
_PAGE = (
    b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nContent-Length: %d\r\n\r\n%s"
)


@dataclass(frozen=True, slots=True)
class Redirect:
    """The parameters of a redirect; each occurs once."""

    code: str
    state: str
    issuer: str | None = None


def read_redirect(address: str, redirect_uri: str, state: str) -> Redirect:
    """Return the parameters of the address to which the browser was sent.

    Raises InvalidRequest if it is another address or has another `state`, Forbidden if the authorization
    server refused.
    """
    base, parts = urlsplit(redirect_uri), urlsplit(address.strip())
    if (parts.scheme, parts.netloc, parts.path) != (base.scheme, base.netloc, base.path):
        raise InvalidRequest(
            _("The address does not begin with {redirect_uri}.").format(redirect_uri=redirect_uri)
        )
    values = parse_qs(parts.query, keep_blank_values=True)
    if any(len(texts) != 1 for texts in values.values()):
        raise InvalidRequest(_("The address has a parameter twice."))
    fields = {name: texts[0] for name, texts in values.items()}
    if not secrets.compare_digest(fields.get("state", "").encode(), state.encode()):
        raise InvalidRequest(_("The address belongs to another login (state)."))
    if "error" in fields:
        reason = fields.get("error_description") or fields["error"]
        raise Forbidden(
            _("The authorization server refused the login: {reason}").format(reason=reason[:300])
        )
    if not fields.get("code"):
        raise InvalidRequest(_("The address has no code."))
    return Redirect(fields["code"], state, fields.get("iss"))


@dataclass(slots=True)
class RedirectServer:
    """Waits for the browser; other requests, such as those of a page that guesses, change nothing."""

    redirect_uri: str = ""
    _state: str = ""
    _redirect: asyncio.Future[Redirect] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def expect(self, state: str) -> None:
        """Accept the redirect with this `state`, once."""
        self._state = state

    async def wait(self, timeout_s: float) -> Redirect:
        """Return the redirect; raises Forbidden if the login was refused, DeadlineExceeded."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._redirect
        except TimeoutError:
            raise DeadlineExceeded(
                _("Nobody logged in within {timeout_s:.0f} s.").format(timeout_s=timeout_s)
            ) from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                head = await reader.readuntil(b"\r\n\r\n")
            status, text = self._take(head.split(b"\r\n", 1)[0].decode("latin-1").split(" "))
            writer.write(_PAGE % (status, len(text), text))
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _take(self, request_line: list[str]) -> tuple[bytes, bytes]:
        """Return status and text of the answer to a request."""
        target = request_line[1] if len(request_line) > 1 else ""
        if request_line[0] != "GET" or not self._state or self._redirect.done():
            return b"400 Bad Request", b"This login is not open."
        base = self.redirect_uri.removesuffix(PATH)
        try:
            self._redirect.set_result(
                read_redirect(f"{base}{target}", self.redirect_uri, self._state)
            )
        except InvalidRequest:
            return b"400 Bad Request", b"This does not belong to the login that is open."
        except Forbidden as error:
            self._redirect.set_exception(error)
            return b"200 OK", b"The login was refused. You can close this page."
        return b"200 OK", b"Logged in. You can close this page and go back to the terminal."


@asynccontextmanager
async def running_redirect_server() -> AsyncIterator[RedirectServer]:
    """Serve on a free port of loopback."""
    redirects = RedirectServer()
    server = await asyncio.start_server(redirects.serve, LOOPBACK, 0, limit=MAX_HEAD)
    port = server.sockets[0].getsockname()[1]
    redirects.redirect_uri = f"http://{LOOPBACK}:{port}{PATH}"
    async with server:
        yield redirects
