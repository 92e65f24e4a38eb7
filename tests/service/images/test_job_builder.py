"""What control does with a build's Job, on a cluster that a test plays: replaced, removed, never left."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from choir_common.errors import Conflict, InvalidRequest
from choir_common.identity_dir import ImageVersion
from choir_common.wire.model import JsonObject
from choir_control.images.builder import Image
from choir_control.images.job import builder as module
from choir_control.images.job.builder import JobImageBuilder
from choir_control.images.job.manifest import BuiltImage
from tests.security.runtimes.test_build_job_posture import SITE
from tests.service.images.forge import Forge, Told

DIGEST = "sha256:" + "a" * 64


class PlayedCluster:
    """A cluster with at most one Job of a name, whose pod does what `end` says once it has its input."""

    def __init__(self) -> None:
        self.jobs: dict[str, JsonObject] = {}
        self.created = 0
        self.received = b""
        self.end: dict[str, Any] | None = {}
        """The state in which the last step ends; None: it never ends."""
        self.commits = ("", "")

    async def create_job(self, manifest: JsonObject) -> None:
        """Create a Job."""
        name = str(manifest["metadata"]["name"])  # type: ignore[index,call-overload]
        if name in self.jobs:
            raise Conflict("already exists")
        self.jobs[name] = manifest
        self.created, self.received = self.created + 1, b""

    async def read_job(self, name: str) -> dict[str, Any] | None:
        """Read a Job."""
        return {"status": {}} if name in self.jobs else None

    async def read_pod_of(self, job: str) -> dict[str, Any] | None:
        """Read the Job's pod, which is as far as its input lets it be."""
        if job not in self.jobs:
            return None
        began = [{"name": "fetch", "state": {"running": {}}}]
        pod: dict[str, Any] = {"metadata": {"name": f"{job}-x"}, "status": {}}
        if self.received:
            began.append({"name": "build", "state": {"running": {}}})
        pod["status"]["initContainerStatuses"] = began
        if self.received and self.end is not None:
            pod["status"]["phase"] = "Failed" if self.end.get("exitCode") else "Succeeded"
            state = {"exitCode": 0, "message": self._result(), **self.end}
            step = "build" if self.end.get("exitCode") else "push"
            done = {"terminated": {"exitCode": 0}}
            pod["status"]["initContainerStatuses"] = [{"name": "build", "state": done}]
            last = [{"name": step, "state": {"terminated": state}}]
            kind = "initContainerStatuses" if step == "build" else "containerStatuses"
            pod["status"][kind] = last
        return pod

    def _result(self) -> str:
        version = ImageVersion(
            agent_id="main",
            image_version="v1",
            global_repo_commit=self.commits[0],
            agent_repo_commit=self.commits[1],
        )
        return BuiltImage(digest=DIGEST, version=version).model_dump_json()

    async def list_jobs(self, labels: Mapping[str, str]) -> list[str]:
        """List the Jobs of an installation."""
        assert labels == {"choir.build": "true", "choir.claim": SITE.claim}
        return [*self.jobs]

    async def delete_job(self, name: str) -> None:
        """Delete a Job."""
        self.jobs.pop(name, None)

    async def send_input(self, pod: str, container: str, data: bytes, within_s: float) -> None:
        """Receive the context."""
        assert container == "fetch"
        self.received = data

    async def follow_log(
        self, name: str, since_s: int | None = None, container: str = ""
    ) -> AsyncIterator[bytes]:
        """Yield two lines in three chunks."""
        assert container == "build"
        for chunk in (b"STEP 1/1: RUN ma", b"ke\nmade ", b"it\n"):
            yield chunk

    async def close(self) -> None:
        """Close nothing."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PlayedCluster:
    monkeypatch.setattr(module, "POLL_S", 0.01)
    return PlayedCluster()


@pytest.fixture
def forge(tmp_path: Path, cluster: PlayedCluster) -> Forge:
    forge = Forge(tmp_path, JobImageBuilder(SITE, cluster))
    cluster.commits = forge.fill_shared(), forge.fill_own()
    return forge


async def test_a_build_is_the_digest_that_was_pushed_with_its_log(
    forge: Forge, cluster: PlayedCluster
) -> None:
    told = Told()
    first = await forge.images.build("main", told)
    assert first.is_new
    assert first.image.place == f"{SITE.repository}@{DIGEST}"
    assert "STEP 1/1: RUN make" in told.lines
    assert "made it" in told.lines
    assert b"FROM localhost/choir-tools" in cluster.received
    assert cluster.jobs == {}
    again = await forge.images.build("main", Told())
    assert not again.is_new  # the registry was asked, and had it
    assert cluster.created == 2


async def test_a_failed_build_is_said_and_leaves_no_job(
    forge: Forge, cluster: PlayedCluster
) -> None:
    cluster.end = {"exitCode": 1, "message": 'building at STEP "RUN false": exit status 1'}
    with pytest.raises(InvalidRequest, match="cannot be built: building at STEP"):
        await forge.images.build("main", Told())
    assert cluster.jobs == {}
    assert forge.shelf.get_current("main") is None


async def test_a_cancelled_build_leaves_no_job(forge: Forge, cluster: PlayedCluster) -> None:
    cluster.end = None
    building = asyncio.create_task(forge.images.build("main", Told()))
    async with asyncio.timeout(20):
        while not cluster.received:
            await asyncio.sleep(0.01)
    building.cancel()
    await asyncio.gather(building, return_exceptions=True)
    assert cluster.jobs == {}


async def test_the_build_of_a_control_process_that_died_is_removed_or_replaced(
    forge: Forge, cluster: PlayedCluster
) -> None:
    left: JsonObject = {"metadata": {"name": module.job_name(SITE, "main")}}
    await cluster.create_job(left)
    assert await forge.builder.remove_orphans() == 1
    assert cluster.jobs == {}
    await cluster.create_job(left)
    assert (await forge.images.build("main", Told())).is_new
    assert cluster.jobs == {}


async def test_the_image_of_another_build_is_refused(forge: Forge, cluster: PlayedCluster) -> None:
    cluster.commits = ("", "")
    with pytest.raises(Exception, match="another build"):
        await forge.images.build("main", Told())


async def test_an_image_of_another_registry_is_built_again() -> None:
    builder = JobImageBuilder(SITE, PlayedCluster())
    version = ImageVersion(agent_id="main")
    assert await builder.find_drift(Image("docker", f"{SITE.repository}@{DIGEST}", version)) is None
    assert await builder.find_drift(Image("docker", DIGEST, version))
