"""S35: every way from an agent to a network, but the egress proxy, fails in both runtimes."""

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from choir_common.egress.credentials import ProxyIdentity, proxy_password
from choir_common.wire.egress import AgentEgress
from tests.security.runtimes.confined import Place, confining
from tests.security.runtimes.confined_calls import newest_landlock
from tests.service.runtimes.containers import Yard, image_that_runs, yard_for
from tests.support.egress import KEY, TrapServer, running_egress, running_trap

needs_landlock = pytest.mark.skipif(
    newest_landlock() == 0,
    reason="NO LANDLOCK IN THIS KERNEL: the confinement of agents is not tested here",
)

WAYS_OUT = """
port = int(Path('port').read_text())
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as way:
        way.settimeout(2)
        way.connect(address)
        way.send(b'leak')
def proxied(target):
    token = Path('credentials').read_text()
    with socket.socket(socket.AF_UNIX) as way:
        way.connect(boot['egress_socket'])
        way.sendall(f'CONNECT {target} HTTP/1.1\\r\\nProxy-Authorization: Basic {token}\\r\\n\\r\\n'.encode())
        status = way.recv(4096).split()[1].decode()
        if status != '200':
            raise ConnectionError(status)
        way.sendall(b'GET / HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n')
        return way.recv(4096)
inet, inet6 = socket.AF_INET, socket.AF_INET6
# succeeds, because nobody answers a datagram; the trap must not receive it
attempt(lambda: connect(inet, ('127.0.0.1', port), socket.SOCK_DGRAM))
report({
    'loopback': attempt(lambda: connect(inet, ('127.0.0.1', port))),
    'loopback of IPv6': attempt(lambda: connect(inet6, ('::1', port))),
    'address of the host': attempt(lambda: connect(inet, (Path('host').read_text(), port))),
    'public': attempt(lambda: connect(inet, ('1.1.1.1', 443))),
    'public IPv6': attempt(lambda: connect(inet6, ('2606:4700::1111', 443))),
    'metadata': attempt(lambda: connect(inet, ('169.254.169.254', 80))),
    'DNS': attempt(lambda: socket.getaddrinfo('example.com', 443)),
    'UDP': attempt(lambda: connect(inet, ('1.1.1.1', 53), socket.SOCK_DGRAM)),
    'UDP IPv6': attempt(lambda: connect(inet6, ('2606:4700::1111', 53), socket.SOCK_DGRAM)),
    'raw': attempt(lambda: socket.socket(inet, socket.SOCK_RAW, socket.IPPROTO_ICMP)),
    'packet': attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    'abstract socket': attempt(lambda: connect(socket.AF_UNIX, f'\\0choir-test-{port}')),
    'other port by proxy': attempt(lambda: proxied(f'localhost:{port + 1}')),
    'loopback by proxy': attempt(lambda: proxied(f'127.0.0.1:{port}')),
    'allowed by proxy': attempt(lambda: proxied(f'localhost:{port}')),
})
"""


CALL = """
import json, os, socket, sys, urllib.request
port, host = int(sys.argv[1]), sys.argv[2]
for name in ('NO_PROXY', 'no_proxy'):
    os.environ.pop(name, None)
def attempt(deed):
    try:
        return ['done', repr(deed())]
    except Exception as error:
        return ['refused', type(error).__name__]
def connect(family, address):
    with socket.socket(family) as way:
        way.settimeout(2)
        way.connect(address)
def fetch(url):
    return urllib.request.urlopen(url, timeout=10).read()
print(json.dumps({
    'network': os.readlink('/proc/self/ns/net'),
    'loopback': attempt(lambda: connect(socket.AF_INET, ('127.0.0.1', port))),
    'address of the host': attempt(lambda: connect(socket.AF_INET, (host, port))),
    'public': attempt(lambda: connect(socket.AF_INET, ('1.1.1.1', 443))),
    'abstract socket': attempt(lambda: connect(socket.AF_UNIX, f'\\0choir-test-{port}')),
    'vsock': attempt(lambda: socket.socket(getattr(socket, 'AF_VSOCK', 40), socket.SOCK_STREAM)),
    'netlink': attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    'loopback by proxy': attempt(lambda: fetch(f'http://127.0.0.1:{port}/')),
    'allowed by proxy': attempt(lambda: fetch(f'http://localhost:{port}/')),
}))
"""
# What an agent does: its relay, and the launcher that control started beside it.
CALLS = f"""
import asyncio
from choir_agent.egress.relay import open_relay
from choir_agent.tools.call_launcher_client import CallLauncherClient
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.streams import OutputCapture
from choir_common.wire.rpc import AgentStartParameters
async def run_calls():
    relay = open_relay(AgentStartParameters.model_validate_json(json.dumps(boot)))
    launcher = CallLauncherClient(int(os.environ['CHOIR_CALL_LAUNCHER']))
    programs = ProgramRunner(Path.cwd(), os.environ['TMPDIR'], egress=relay.route, launcher=launcher)
    async def run(offline):
        argv = [sys.executable, '-I', '-c', {CALL!r}, Path('port').read_text(), Path('host').read_text()]
        program = Program('call_1', argv, 60, tool='choir.exec', offline=offline)
        out, err = OutputCapture(10_000), OutputCapture(10_000)
        await programs.run(program, out, err)
        return json.loads(out.text()) if out.text() else err.text()
    async with relay.serving():
        return [os.readlink('/proc/self/ns/net'), await run(False), await run(True)]
report(asyncio.run(run_calls()))
"""


@dataclass
class Traps:
    """Listeners of the host that no agent may reach: TCP, UDP and an abstract socket."""

    tcp: TrapServer
    udp: socket.socket
    abstract: socket.socket

    def received(self) -> int:
        """Return how many of the datagrams and abstract connections arrived."""
        count = 0
        for way in (self.udp, self.abstract):
            with contextlib.suppress(BlockingIOError):
                _ = way.recv(1) if way is self.udp else way.accept()
                count += 1
        return count


@contextlib.asynccontextmanager
async def trapped(place: Place | Yard) -> AsyncIterator[Traps]:
    """Open the traps, and the egress proxy with the TCP trap as the only host that is allowed."""
    async with running_trap("0.0.0.0") as trap:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        abstract = socket.socket(socket.AF_UNIX)
        with udp, abstract:
            udp.bind(("127.0.0.1", trap.port))
            abstract.bind(f"\0choir-test-{trap.port}")
            abstract.listen()
            for way in (udp, abstract):
                way.setblocking(False)
            agent = AgentEgress(agent_id="main", key=KEY, tool_hosts=(f"localhost:{trap.port}",))
            async with running_egress(place.home, agent):
                yield Traps(trap, udp, abstract)


async def run_agent(place: Place | Yard, traps: Traps) -> Any:
    """Start the agent with the proxy as its way to the network; return its report."""
    spec = replace(place.spec(), egress_key=KEY)
    (spec.workspace / "port").write_text(str(traps.tcp.port))
    user = ProxyIdentity("choir.exec", "call_1")
    credentials = base64.b64encode(f"{user.name}:{proxy_password(KEY, user)}".encode())
    (spec.workspace / "credentials").write_bytes(credentials)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with contextlib.suppress(OSError):
            probe.connect(("192.0.2.1", 9))
        (spec.workspace / "host").write_text(probe.getsockname()[0])
    await place.runtime.start(spec)
    return await place.report()


async def try_every_way(place: Place | Yard) -> None:
    """Start the agent that tries; assert that only the proxy led it anywhere."""
    async with trapped(place) as traps:
        report = await run_agent(place, traps)
        await asyncio.sleep(0)
        received = traps.received()
    allowed = report.pop("allowed by proxy")
    assert allowed[0] == "done"
    assert "GET / HTTP/1.1" in allowed[1]
    assert len(report) == 14
    assert {what: result for what, result in report.items() if result[0] != "refused"} == {}
    assert (traps.tcp.connections, received) == (1, 0)


@needs_landlock
async def test_every_way_to_a_network_but_the_proxy_fails() -> None:
    async with confining(WAYS_OUT) as place:
        await try_every_way(place)
        assert place.runtime.has_private_view


async def test_every_way_to_a_network_but_the_proxy_fails_in_a_container() -> None:
    with image_that_runs(WAYS_OUT) as image:
        async with yard_for(image, network="bridge") as yard:
            await try_every_way(yard)


@needs_landlock
async def test_a_call_reaches_the_proxy_only_and_without_network_nothing_at_all() -> None:
    async with confining(CALLS) as place, trapped(place) as traps:
        own_network, online, offline = await run_agent(place, traps)
        await asyncio.sleep(0)
        received = traps.received()
    assert online.pop("allowed by proxy") == ["done", "b'GET / HTTP/1.1'"]
    assert online.pop("network") == own_network
    assert offline.pop("network") != own_network
    assert {what: result for what, result in online.items() if result[0] != "refused"} == {}
    assert {what: result for what, result in offline.items() if result[0] != "refused"} == {}
    assert (traps.tcp.connections, received) == (1, 0)
