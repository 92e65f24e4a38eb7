"""Server for git's credential requests on a private Unix socket.

The protocol is that of git-credential(1): lines of `key=value`. The socket's mode excludes other users; the
check of the peer's ancestors excludes processes that this agent did not start.
"""

import asyncio
import os
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import structlog

from choir_common.egress.key_placeholders import is_placeholder
from choir_common.wire.config import GitIdentityConfig

_CREDENTIALS = struct.Struct("3i")
MAX_ANCESTORS = 64


def pid_of_peer(connection: socket.socket) -> int:
    """Return the pid of the peer of a Unix socket, or 0 if the system does not provide it."""
    if sys.platform != "linux":
        return 0
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(raw)[0]
    return pid


def is_descendant(pid: int, ancestor: int) -> bool:
    """Return whether `pid` is alive and descends from `ancestor`; always False without /proc."""
    for _ in range(MAX_ANCESTORS):
        if pid <= 1:
            return False
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        # The command name may contain spaces and parentheses.
        pid = int(text[text.rindex(")") + 2 :].split()[1])
        if pid == ancestor:
            return True
    return False


def is_own_descendant(connection: socket.socket) -> bool:
    """Return whether this process started the peer, directly or through others; True if not on Linux."""
    return sys.platform != "linux" or is_descendant(pid_of_peer(connection), os.getpid())


MAX_REQUEST_BYTES = 8_192
HTTPS_PORT = ":443"


@dataclass(frozen=True, slots=True)
class GitCredential:
    """A git identity and its token; None if its secret is a private key, or missing."""

    identity: GitIdentityConfig
    token: str | None


@dataclass(frozen=True, slots=True)
class CredentialResponse:
    """Response to git: either the credential, or a refusal that git prints on standard error."""

    text: str = ""
    refusal: str = ""


def respond_to_request(question: str, credential: GitCredential | None) -> CredentialResponse:
    """Return the credential for an allowed host over HTTPS, else the reason for the refusal."""
    fields = _parse(question) if len(question) <= MAX_REQUEST_BYTES else None
    if fields is None:
        return CredentialResponse(refusal="the request is malformed")
    if credential is None:
        return CredentialResponse(refusal="this agent has no git identity")
    protocol = fields.get("protocol", "")
    if is_placeholder(credential.token) and protocol == "https":
        return CredentialResponse(
            refusal="the egress proxy adds the token to addresses that begin with https:// and the name of "
            "the host; remove the user name from the address"
        )
    # Over http, git asks the egress proxy, which is the only one that can use a placeholder.
    if protocol != ("http" if is_placeholder(credential.token) else "https"):
        return CredentialResponse(
            refusal=f"credentials are provided for https only, not for {protocol!r}"
        )
    host = fields.get("host", "")
    if not is_allowed_host(credential.identity.hosts, host):
        allowed = ", ".join(credential.identity.hosts) or "none"
        return CredentialResponse(
            refusal=f"the git identity is not for the host {host!r} (allowed: {allowed})"
        )
    if credential.token is None:
        return CredentialResponse(refusal="the git identity has no token for https")
    if not _fits_a_line(credential.token):
        return CredentialResponse(refusal="the git identity's token has more than one line")
    username = fields.get("username") or credential.identity.username
    return CredentialResponse(text=f"username={username}\npassword={credential.token}\n")


def is_allowed_host(hosts: tuple[str, ...], host: str) -> bool:
    """Return whether `host`, with or without a port, is one of `hosts`. Suffixes do not match."""
    host_name = host.lower().removesuffix(HTTPS_PORT)
    return bool(host_name) and host_name in {
        name.lower().removesuffix(HTTPS_PORT) for name in hosts
    }


def _parse(question: str) -> dict[str, str] | None:
    fields: dict[str, str] = {}
    for line in question.split("\n"):
        if not line:
            continue
        key, separator, value = line.partition("=")
        # Repeated keys and control characters are tricks to make one host look like another.
        repeated = key in fields and not key.endswith("[]")
        if not separator or repeated or not value.isprintable():
            return None
        fields[key] = value
    return fields


def _fits_a_line(token: str) -> bool:
    return bool(token) and token.isprintable()


log = structlog.get_logger("choir.agent.git")

REQUEST_TIMEOUT_S = 5.0


class CredentialServer:
    """Server that returns the current credential to git's helper."""

    def __init__(self) -> None:
        self.credential: GitCredential | None = None
        """The identity to answer with; None refuses every request."""
        self._server: asyncio.Server | None = None

    async def open(self, path: Path) -> None:
        """Listen at `path`; raises OSError if that fails."""
        self._server = await asyncio.start_unix_server(self._serve, path, limit=MAX_REQUEST_BYTES)
        await asyncio.to_thread(path.chmod, 0o600)

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                answer = await self._answer(reader, writer)
                writer.write(answer.refusal.encode() + b"\0" + answer.text.encode())
                await writer.drain()
        except (OSError, TimeoutError, UnicodeDecodeError) as error:
            log.warning("git credential request failed", error=repr(error))
        finally:
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> CredentialResponse:
        if not is_own_descendant(writer.get_extra_info("socket")):
            log.warning("a process that this agent did not start asked for its git credential")
            return CredentialResponse(refusal="this agent serves only processes that it started")
        question = b""
        while len(question) <= MAX_REQUEST_BYTES and (part := await reader.read(MAX_REQUEST_BYTES)):
            question += part
        answer = respond_to_request(question.decode(), self.credential)
        log.info("git credential requested", given=bool(answer.text), refusal=answer.refusal)
        return answer
