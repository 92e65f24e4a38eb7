"""The Kubernetes runtime's promises on a real cluster whose node is this machine's Docker engine."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from choir_control.agents.runtimes.kubernetes.api import PodApi
from tests.service.runtimes.conformance import WAITS, RuntimeConformance
from tests.service.runtimes.containers import PYTHON_IMAGE, connect, image_that_runs
from tests.service.runtimes.pods import PodYard, make_runtime
from tests.support.cluster import apply, kubectl, need_cluster, volume_of

pytestmark = pytest.mark.nightly

NAMESPACE = f"choir-test-{secrets.token_hex(3)}"


@dataclass
class ClusterYard(PodYard):
    """A yard on a real cluster, where a test does what other people do."""

    async def kill(self) -> None:
        """Kill the only agent's process from outside."""
        (name,) = await self.places()
        client = connect()
        labels = [f"io.kubernetes.pod.name={name}", "io.kubernetes.container.name=agent"]
        for container in client.containers.list(filters={"label": labels}):
            container.kill()
        client.close()

    async def remove(self) -> None:
        """Remove the only pod from outside."""
        (name,) = await self.places()
        await asyncio.to_thread(kubectl, "-n", NAMESPACE, "delete", "pod", name, "--now")

    async def cut_events(self) -> None:
        """End the watch and begin a new one."""
        await self.runtime._watcher.stop()
        self.runtime._watcher._task = None
        self.runtime._watcher.start()


@contextlib.asynccontextmanager
async def yard_for(image: str) -> AsyncIterator[ClusterYard]:
    """Make a yard with a claim of its own; nothing of it is left afterwards."""
    config, claim = need_cluster(), f"home-{secrets.token_hex(3)}"
    size = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    metadata = {"name": claim, "namespace": NAMESPACE}
    apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": size})
    home: Path = await asyncio.to_thread(volume_of, NAMESPACE, claim)

    def api() -> PodApi:
        return PodApi(NAMESPACE, config)

    runtime = make_runtime(home, image, claim, api())
    try:
        yield ClusterYard(home, image, claim, api, runtime)
    finally:
        await runtime.close()
        kubectl("-n", NAMESPACE, "delete", "pods", "-l", f"choir.claim={claim}", "--now")
        kubectl("-n", NAMESPACE, "delete", "pvc", claim, "--wait=false")


@pytest.fixture(scope="module", autouse=True)
def namespace() -> Iterator[None]:
    """Make a namespace for these tests."""
    need_cluster()
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@contextlib.contextmanager
def tagged_image(code: str) -> Iterator[str]:
    """Make an image with a tag: a node takes no engine's id for a name."""
    client, tag = connect(), f"choir-test-agent:{secrets.token_hex(4)}"
    with image_that_runs(code, PYTHON_IMAGE) as image:
        client.images.get(image).tag(tag)  # removed with the image
        client.close()
        yield tag


@pytest.fixture(scope="module")
def waiting() -> Iterator[str]:
    """Make an image whose agent reports and waits."""
    with tagged_image(WAITS) as image:
        yield image


class TestKubernetesCluster(RuntimeConformance):
    """The promises of every runtime with containers."""

    def image(self, code: str) -> AbstractContextManager[str]:
        """Build an image in the node's engine."""
        return tagged_image(code)

    def yard(self, image: str) -> AbstractAsyncContextManager[ClusterYard]:
        """Make a yard with pods of the cluster."""
        return yard_for(image)
