"""The egress service as a real process, and a server on loopback that agents must not reach."""

import asyncio
import contextlib
import runpy
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from choir_common.http.client import make_client
from choir_common.wire.egress import AgentEgress, EgressTable
from choir_common.wire.rpc import AgentStartParameters
from tests.support.ports import free_port
from tests.support.service_process import ServiceProcess

KEY = "ab" * 32
TOKEN = "control's token"
PREPARE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base" / "prepare.py"


@dataclass
class TrapServer:
    """An HTTP server that answers each request with its first line, and counts connections."""

    port: int = 0
    connections: int = 0
    heads: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = ""
            while "connection: close" not in head.lower():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.heads.append(head)
                body = head.partition("\r\n")[0].encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def running_trap(host: str = "127.0.0.1") -> AsyncIterator[TrapServer]:
    """Serve on a free port of this address."""
    trap = TrapServer()
    server = await asyncio.start_server(trap.serve, host, 0)
    trap.port = server.sockets[0].getsockname()[1]
    async with server:
        yield trap


@dataclass
class EgressProcess:
    """The running service."""

    service: ServiceProcess
    address: str = ""
    """`host:port` of its port for agents, if it has one."""
    headers: dict[str, str] = field(default_factory=dict)

    def proxy_socket(self, agent_id: str = "main") -> Path:
        return self.service.home / "socks" / "agents" / agent_id / "proxy.sock"

    async def put(self, *agents: AgentEgress) -> httpx2.Response:
        """Send the table of agents."""
        certificate = self.service.certificate or None
        async with make_client(
            self.service.endpoint, headers=self.headers, ca_pem=certificate
        ) as client:
            body = EgressTable(agents=agents).model_dump_json()
            return await client.put("/v1/agents", content=body)


def boot_parameters(egress: EgressProcess) -> AgentStartParameters:
    """Return the parameters of an agent that uses the proxy; it has no control."""
    return AgentStartParameters(
        agent_id="main",
        session_id="ses_1",
        epoch=1,
        lease_token="t",
        endpoint="unix:///none",
        workspace="/",
        choir_dir="/",
        egress_socket="" if egress.address else str(egress.proxy_socket()),
        egress_key=KEY,
        egress_address=egress.address,
        egress_certificate=egress.service.certificate,
    )


@contextlib.asynccontextmanager
async def running_egress(
    home: Path, *agents: AgentEgress, trusted: Path | None = None, health_port: int | None = None
) -> AsyncIterator[EgressProcess]:
    """Start the service in a state directory, with these agents; it trusts the certificate `trusted`."""
    env = {"SSL_CERT_FILE": str(trusted)} if trusted else {}
    if health_port:
        env["CHOIR_EGRESS_HTTP"] = f"127.0.0.1:{health_port}"
    service = ServiceProcess(
        "choir_egress",
        home,
        "nats://127.0.0.1:1",
        home / "socks" / "agents" / "egress" / "control.sock",
        env=env,
    )
    await service.start()
    process = EgressProcess(service)
    try:
        assert (await process.put(*agents)).is_success
        yield process
    finally:
        assert await service.stop() == 0, service.log


@contextlib.asynccontextmanager
async def running_remote_egress(home: Path, *agents: AgentEgress) -> AsyncIterator[EgressProcess]:
    """Start the service as in a cluster: with TCP ports over TLS, and a token for control."""
    certificate, private_key = runpy.run_path(str(PREPARE))["make_certificate"]("localhost")
    control, address = f"localhost:{free_port()}", f"localhost:{free_port()}"
    env = {"CHOIR_EGRESS_HTTP": control, "CHOIR_EGRESS_AGENTS": address}
    service = ServiceProcess(
        "choir_egress",
        home,
        "nats://127.0.0.1:1",
        home / "none.sock",
        env={name: value.replace("localhost", "127.0.0.1") for name, value in env.items()},
        secrets={"token": TOKEN, "certificate": certificate, "private_key": private_key},
        address=f"https://{control}",
        certificate=certificate,
    )
    await service.start()
    process = EgressProcess(service, address, {"Authorization": f"Bearer {TOKEN}"})
    try:
        assert (await process.put(*agents)).is_success
        yield process
    finally:
        assert await service.stop() == 0, service.log
