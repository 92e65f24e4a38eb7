"""The Docker runtime's promises about life and death of agents, on a real engine."""

import asyncio
import io
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from choir_common.errors import Conflict, Unavailable
from choir_control.agents.runtimes.docker.container import ContainerLimits
from choir_control.agents.runtimes.docker.engine import DockerEngine
from choir_control.agents.runtimes.docker.runtime import DockerRuntime
from tests.security.runtimes.confined import TOKEN
from tests.service.runtimes.containers import image_that_runs, yard_for

WAITS = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print('what a day', file=sys.stderr, flush=True)
report({'boot': boot, 'rest': sys.stdin.read(), 'directory': os.getcwd(),
        'soul': Path('/choir/SOUL.md').read_text()})
while True:
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def waiting() -> Iterator[str]:
    """Make an image whose agent reports and waits."""
    with image_that_runs(WAITS) as image:
        yield image


async def test_an_agent_gets_its_boot_line_and_then_the_end_of_input(waiting: str) -> None:
    async with yard_for(waiting) as yard:
        running = await yard.runtime.start(yard.spec())
        report = await yard.report()
        assert await yard.runtime.list_running() == [running]
        assert yard.containers()[0].id.startswith(running.handle)
    assert report["boot"] == {
        "agent_id": "main",
        "session_id": "ses_main",
        "epoch": 1,
        "lease_token": TOKEN,
        "endpoint": "unix:///run/choir/choir.sock",
        "ca_pem": "",
        "workspace": "/workspace",
        "choir_dir": "/choir",
        "image_version": "",
        "egress_socket": "",
        "egress_key": "",
    }
    assert report["rest"] == ""
    assert report["directory"] == "/workspace"
    assert report["soul"] == "kind"


async def test_a_built_image_is_started_with_its_own_choir(waiting: str) -> None:
    baked = f"FROM {waiting}\nRUN mkdir /choir && printf baked > /choir/SOUL.md\n"
    async with yard_for("choir-agent:not-this-one") as yard:
        image, _ = yard.client.images.build(fileobj=io.BytesIO(baked.encode()), rm=True)
        try:
            spec = replace(yard.spec(), docker_image=image.id, image_version="v1")
            await yard.runtime.start(spec)
            report = await yard.report()
            await yard.runtime.stop("main", 5)
        finally:
            yard.client.images.remove(image.id, force=True, noprune=True)
    assert report["soul"] == "baked"
    assert report["boot"]["image_version"] == "v1"


async def test_stopping_asks_first_and_removes_the_container(waiting: str) -> None:
    async with yard_for(waiting) as yard:
        await yard.runtime.start(yard.spec())
        await yard.report()
        await yard.runtime.stop("main", grace_s=20)
        exit_ = await yard.next_exit()
        assert (exit_.agent_id, exit_.session_id, exit_.epoch) == ("main", "ses_main", 1)
        assert exit_.code == 7
        assert await yard.runtime.list_running() == []
        assert yard.containers() == []
        assert "what a day" in (yard.home / "logs" / "main.log").read_text()


async def test_a_killed_agent_is_told_at_once_and_can_be_started_again(waiting: str) -> None:
    async with yard_for(waiting) as yard:
        await yard.runtime.start(yard.spec())
        await yard.report()
        yard.containers()[0].kill()
        exit_ = await yard.next_exit()
        assert exit_.code == 128 + signal.SIGKILL
        running = await yard.runtime.start(yard.spec(epoch=2))
        assert running.epoch == 2


async def test_a_container_that_somebody_removed_is_an_exit_too(waiting: str) -> None:
    async with yard_for(waiting) as yard:
        await yard.runtime.start(yard.spec())
        await yard.report()
        yard.containers()[0].remove(force=True)
        assert (await yard.next_exit()).epoch == 1


async def test_an_agent_that_runs_cannot_be_started_again(waiting: str) -> None:
    async with yard_for(waiting) as yard:
        await yard.runtime.start(yard.spec())
        with pytest.raises(Conflict):
            await yard.runtime.start(yard.spec(epoch=2))
        # not even by a second control that knows nothing of the first
        second = DockerRuntime(home=yard.home, image=waiting, network="none")
        with pytest.raises(Conflict):
            await second.start(yard.spec(epoch=2))
        await second.close()
        assert len(yard.containers()) == 1


async def test_a_stubborn_agent_is_killed_after_its_grace() -> None:
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN); report(1)\nwhile True: time.sleep(9)"
    with image_that_runs(code) as image:
        async with yard_for(image) as yard:
            await yard.runtime.start(yard.spec())
            await yard.report()
            await yard.runtime.stop("main", grace_s=1)
            assert (await yard.next_exit()).code == 128 + signal.SIGKILL


async def test_an_agent_that_takes_too_much_memory_is_ended_and_the_exit_says_why() -> None:
    code = "hoard = [bytearray(1 << 20) for _ in range(4096)]"
    limits = ContainerLimits(memory_bytes=48 << 20)
    with image_that_runs(code) as image:
        async with yard_for(image, limits) as yard:
            await yard.runtime.start(yard.spec())
            assert "memory" in (await yard.next_exit()).detail


async def test_the_next_control_removes_orphans_but_no_stranger(waiting: str) -> None:
    async with yard_for(waiting) as yard, yard_for(waiting) as neighbour:
        await yard.runtime.start(yard.spec())
        await neighbour.runtime.start(neighbour.spec())
        await yard.report()
        next_control = DockerRuntime(home=yard.home, image=waiting, network="none")
        assert await next_control.remove_orphans() == 1
        assert yard.containers() == []
        assert "what a day" in (yard.home / "logs" / "main.log").read_text()
        assert len(neighbour.containers()) == 1
        assert await neighbour.runtime.remove_orphans() == 0
        await next_control.close()


async def test_an_exit_while_the_events_were_cut_off_is_found_again(waiting: str) -> None:
    async with yard_for(waiting) as yard:
        await yard.runtime.start(yard.spec())
        await yard.report()
        watcher = yard.runtime._exit_watcher
        assert watcher is not None
        assert watcher._stream is not None
        watcher._stream.interrupt()
        yard.containers()[0].kill()
        assert (await yard.next_exit()).epoch == 1


async def test_a_missing_image_is_said_in_a_sentence_and_leaves_nothing() -> None:
    async with yard_for("choir-agent:no-such-image") as yard:
        with pytest.raises(Unavailable, match="choir-agent:no-such-image"):
            await yard.runtime.start(yard.spec())
        assert yard.containers() == []
        assert await yard.runtime.list_running() == []


async def test_a_missing_workspace_is_refused_and_not_made(waiting: str) -> None:
    async with yard_for(waiting) as yard:
        spec = yard.spec()
        spec.workspace.rmdir()
        with pytest.raises(Unavailable, match="bind source"):
            await yard.runtime.start(spec)
        assert not spec.workspace.exists()
        assert yard.containers() == []


async def test_an_engine_that_is_not_there_is_said_in_a_sentence() -> None:
    async with yard_for("unused") as yard:
        nowhere = DockerRuntime(
            home=yard.home, image="x", engine=DockerEngine(f"unix://{yard.home}/none.sock")
        )
        with pytest.raises(Unavailable, match="does not respond"):
            await nowhere.start(yard.spec())
        with pytest.raises(Unavailable, match="does not respond"):
            await nowhere.remove_orphans()
        assert "does not respond" in await nowhere.unavailable_reason()
        assert await yard.runtime.unavailable_reason() == ""
        await nowhere.close()


async def test_closing_kills_what_runs_and_ends_the_stream_of_exits(waiting: str) -> None:
    async with yard_for(waiting) as yard:
        await yard.runtime.start(yard.spec("one"))
        await yard.runtime.start(yard.spec("two"))
        began = time.monotonic()
        await yard.runtime.close()
        assert yard.containers() == []
        assert len([exit_ async for exit_ in yard.runtime.exits()]) == 2
        assert time.monotonic() - began < 30


async def test_the_loop_stays_free_while_the_engine_works(waiting: str) -> None:
    async with yard_for(waiting) as yard:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.create_task(tick())
        await yard.runtime.start(yard.spec())
        ticking.cancel()
        assert ticks >= 3
