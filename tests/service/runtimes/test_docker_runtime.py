"""The Docker runtime's promises about life and death of agents, on a real engine."""

import io
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace

import pytest

from choir_common.errors import Unavailable
from choir_control.agents.runtimes.containers import ContainerLimits
from choir_control.agents.runtimes.docker.engine import DockerEngine
from choir_control.agents.runtimes.docker.runtime import DockerRuntime
from tests.service.runtimes.conformance import WAITS, RuntimeConformance
from tests.service.runtimes.containers import Yard, image_that_runs, yard_for


class TestDockerRuntime(RuntimeConformance):
    """The promises of every runtime with containers."""

    def image(self, code: str) -> AbstractContextManager[str]:
        """Build an image in the engine."""
        return image_that_runs(code)

    def yard(self, image: str) -> AbstractAsyncContextManager[Yard]:
        """Make a yard with containers."""
        return yard_for(image)


@pytest.fixture(scope="module")
def waiting() -> Iterator[str]:
    """Make an image whose agent reports and waits."""
    with image_that_runs(WAITS) as image:
        yield image


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


async def test_an_agent_that_takes_too_much_memory_is_ended_and_the_exit_says_why() -> None:
    code = "hoard = [bytearray(1 << 20) for _ in range(4096)]"
    limits = ContainerLimits(memory_bytes=48 << 20)
    with image_that_runs(code) as image:
        async with yard_for(image, limits) as yard:
            await yard.runtime.start(yard.spec())
            assert "memory" in (await yard.next_exit()).detail


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
