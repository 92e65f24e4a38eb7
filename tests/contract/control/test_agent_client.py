"""The agent's own client over its socket, HTTP and HTTPS; it trusts what it was given, and no more."""

import asyncio
import datetime
from pathlib import Path

import httpx2
import pytest

from choir_agent.control_client.control_client import ControlClient
from choir_agent.control_client.signal_stream import SignalStream
from choir_common.errors import Fenced, Unavailable
from choir_common.http.client import make_client
from choir_common.wire.rpc import AgentStartParameters, ConfigRequest, HelloRequest
from choir_common.wire.signals import Signal
from choir_control.agents.runtimes.port import LaunchSpec
from choir_control.api.transports.authority import issue_certificate
from choir_control.api.transports.own_files import CertificateFiles
from tests.service.control.world import OPERATOR_TOKEN, World


class Receiver:
    """The signals of a stream."""

    def __init__(self) -> None:
        self.signals: asyncio.Queue[Signal] = asyncio.Queue()

    def receive(self, signal: Signal) -> None:
        self.signals.put_nowait(signal)


@pytest.fixture(params=["agent socket", "http", "https"])
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def boot_of(spec: LaunchSpec) -> AgentStartParameters:
    way = spec.control_address(str(spec.socket_dir))
    return AgentStartParameters(
        agent_id=spec.agent_id,
        session_id=spec.session_id,
        epoch=spec.epoch,
        lease_token=spec.lease_token,
        endpoint=way.endpoint,
        ca_pem=way.ca_pem,
        workspace="",
        choir_dir="",
    )


def hello_of(spec: LaunchSpec) -> HelloRequest:
    return HelloRequest(
        agent_id=spec.agent_id,
        session_id=spec.session_id,
        epoch=spec.epoch,
        image_version="",
        tool_manifest_hash="",
        skill_manifest_hash="",
    )


async def test_calls_signals_and_the_end_are_the_same(world: World) -> None:
    spec = (await world.agent()).spec
    control = ControlClient(boot_of(spec))
    try:
        assert (await control.hello(hello_of(spec))).status == "fresh"
        assert (await control.fetch_config(ConfigRequest(current_config_version=0))).config
        accepted = await world.say("hello", "1")
        received = Receiver()
        following = asyncio.create_task(SignalStream(control).follow(received))
        async with asyncio.timeout(60):
            signal = await received.signals.get()
        following.cancel()
        assert signal.body.inbox_id == accepted.inbox_id  # type: ignore[union-attr]
    finally:
        await control.close()


@pytest.mark.parametrize("door", ["https"], indirect=True)
async def test_another_authority_is_refused_before_a_token_is_sent(
    world: World, tmp_path: Path
) -> None:
    spec = (await world.agent()).spec
    other = CertificateFiles(tmp_path / "other")
    issue_certificate(other, ["127.0.0.1"], datetime.datetime.now(datetime.UTC))
    boot = boot_of(spec)
    for trusted in (other.authority.read_text(), ""):  # "": the system's authorities
        control = ControlClient(boot.model_copy(update={"ca_pem": trusted}))
        with pytest.raises(Unavailable, match="certificate"):
            await control.hello(hello_of(spec))
        await control.close()
    elsewhere = boot.endpoint.replace("127.0.0.1", "127.0.0.2")
    control = ControlClient(boot.model_copy(update={"endpoint": elsewhere}))
    with pytest.raises(Unavailable):
        await control.hello(hello_of(spec))
    await control.close()


@pytest.mark.parametrize("door", ["https"], indirect=True)
async def test_what_is_made_for_tls_is_for_its_owner_alone_and_the_authority_stays(
    world: World,
) -> None:
    files = CertificateFiles(world.settings.tls_dir)
    trusted = files.authority.read_text()
    assert files.directory.stat().st_mode & 0o777 == 0o700
    modes = {path: path.stat().st_mode & 0o777 for path in files.directory.iterdir()}
    # the authority's certificate is what clients trust, and Prometheus reads it
    assert modes.pop(files.authority) == 0o644 and set(modes.values()) == {0o600}
    shown = files.certificate.read_bytes()
    await world.stop()
    await world.start()
    assert files.authority.read_text() == trusted and files.certificate.read_bytes() != shown
    token = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
    secured = world.tcp.replace("http://", "https://")
    async with make_client(secured, headers=token, ca_pem=trusted) as client:
        assert (await client.get("/v1/status")).status_code == 200
    # nothing is said in the clear at that port
    async with make_client(world.tcp) as client:
        with pytest.raises(httpx2.TransportError):
            await client.get("/livez")


async def test_a_fenced_epoch_hears_so_on_every_transport(world: World) -> None:
    first = (await world.agent()).spec
    await (await world.agent()).begin()
    world.runtime.die("main")
    await world.agent(starts=2)
    control = ControlClient(boot_of(first))
    with pytest.raises(Fenced):
        await control.hello(hello_of(first))
    await control.close()
