"""TCP port for agents that no Unix socket reaches: pods, which may run on other nodes.

All agents share it, over TLS. The greeting of a connection says which agent's proxy serves it.
"""

import asyncio
import contextlib
import ssl
import tempfile
from pathlib import Path

import structlog

from choir_common.egress.greeting import MAX_GREETING, greeting_agent, is_greeting
from choir_common.egress.http_head import MAX_HEAD_BYTES
from choir_common.errors import StartupError
from choir_common.http.listen import bind_tcp_address
from choir_common.i18n import _
from choir_egress.agent_table import AgentTable
from choir_egress.settings import EgressSecrets

log = structlog.get_logger("choir.egress")

GREETING_TIMEOUT_S = 10.0
MAX_UNPROVED = 512
"""Connections that have not said yet whose they are; more are closed at once."""
HANDSHAKE_S = 10.0


class AgentPort:
    """Serves the connections of all agents by the proxy of each."""

    def __init__(self, table: AgentTable) -> None:
        self._table = table
        self._unproved = 0

    async def open(self, address: str, tls: ssl.SSLContext) -> asyncio.Server:
        """Listen on host:port; raises StartupError if it cannot be bound."""
        bound = bind_tcp_address(address, "CHOIR_EGRESS_AGENTS")
        return await asyncio.start_server(
            self.serve,
            sock=bound,
            limit=MAX_HEAD_BYTES,
            ssl=tls,
            ssl_handshake_timeout=HANDSHAKE_S,
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        proxy = None
        if self._unproved < MAX_UNPROVED:
            self._unproved += 1
            try:
                proxy = self._table.find(greeting_agent(line := await _read_line(reader)))
                if proxy is not None and not is_greeting(
                    line, proxy.agent.agent_id, proxy.agent.key
                ):
                    log.warning("a greeting had a wrong key", agent=proxy.agent.agent_id)
                    proxy = None
            except asyncio.CancelledError:
                writer.close()  # the service stops: asyncio would log it as an error
                return
            finally:
                self._unproved -= 1
        if proxy is None:
            writer.close()
            return
        await proxy.serve(reader, writer)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return the first line; empty if it does not come in time, or is too long."""
    line = b""
    with contextlib.suppress(TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
        async with asyncio.timeout(GREETING_TIMEOUT_S):
            line = await reader.readuntil(b"\n")
    return line if len(line) <= MAX_GREETING else b""


def server_tls(secrets: EgressSecrets) -> ssl.SSLContext:
    """Return the TLS settings of the ports. Raises StartupError without a valid certificate."""
    if not (secrets.certificate and secrets.private_key and secrets.token):
        raise StartupError(
            _(
                "CHOIR_EGRESS_AGENTS is set, so the service's secrets need `certificate`, `private_key` "
                "and `token`. Set CHOIR_SECRETS_FILE to a file that has them."
            )
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # the ssl module reads files only
    with tempfile.TemporaryDirectory() as directory:
        files = Path(directory) / "certificate.pem", Path(directory) / "key.pem"
        for path, text in zip(files, (secrets.certificate, secrets.private_key), strict=True):
            path.touch(0o600)
            path.write_text(text)
        try:
            context.load_cert_chain(*files)
        except (OSError, ssl.SSLError) as error:
            raise StartupError(
                _(
                    "The certificate of the egress service cannot be used: {error}. It is `certificate` with "
                    "`private_key` in CHOIR_SECRETS_FILE, both as PEM."
                ).format(error=error.strerror)
            ) from error
    return context
