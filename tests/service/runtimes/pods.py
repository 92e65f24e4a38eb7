"""Run small programs as agents in pods, of a fake API server or of a real cluster."""

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from choir_control.agents.runtimes.kubernetes.api import PodApi
from choir_control.agents.runtimes.kubernetes.pod_state import is_cleared_up
from choir_control.agents.runtimes.kubernetes.runtime import KubernetesRuntime
from choir_control.agents.runtimes.port import AgentExit, ControlAddress, LaunchSpec
from tests.security.runtimes.confined import DEADLINE_S, TOKEN
from tests.service.runtimes.fake_kubernetes import NAMESPACE, FakeKubernetes, FakePod

USER = (10001, 10001)


@dataclass
class PodYard:
    """A state directory in a volume, and the runtime that serves it."""

    home: Path
    image: str
    claim: str
    api: Callable[[], PodApi]
    runtime: KubernetesRuntime

    def spec(self, agent_id: str = "main", epoch: int = 1) -> LaunchSpec:
        """Describe a start of one of the agents, making its directories."""
        workspace = self.home / "workspaces" / agent_id
        choir_dir = self.home / "agents" / agent_id / "choir"
        for directory in (workspace, choir_dir):
            directory.mkdir(parents=True, exist_ok=True)
        workspace.chmod(0o777)  # agents run as another user than the test
        (choir_dir / "SOUL.md").write_text("kind")
        return LaunchSpec(
            agent_id,
            f"ses_{agent_id}",
            epoch,
            TOKEN,
            workspace,
            choir_dir,
            self.home / "socks",
            http=ControlAddress("https://control:9400", "the CA"),
        )

    def another(self) -> KubernetesRuntime:
        """Make the runtime of a second control process with the same state directory."""
        return make_runtime(self.home, self.image, self.claim, self.api())

    async def next_exit(self) -> AgentExit:
        """Return the next exit."""
        async with asyncio.timeout(DEADLINE_S):
            return await anext(aiter(self.runtime.exits()))

    async def report(self, agent_id: str = "main") -> Any:
        """Return what the agent's program reported, as soon as it has."""
        path = self.home / "workspaces" / agent_id / "report.json"
        for _ in range(int(DEADLINE_S / 0.05)):
            if path.exists():
                return json.loads(path.read_text())
            if not await self.runtime.list_running():
                break
            await asyncio.sleep(0.05)
        log = self.home / "logs" / f"{agent_id}.log"
        raise AssertionError(f"no report; {log.read_text() if log.exists() else 'and no log'}")

    async def places(self) -> list[str]:
        """Return the names of this yard's pods, living or not, except those that nodes clear up."""
        api = self.api()
        found = await api.list_pods({"choir.claim": self.claim})
        await api.close()
        return [str(pod["metadata"]["name"]) for pod in found.pods if not is_cleared_up(pod)]


@dataclass
class FakePodYard(PodYard):
    """A yard on a fake cluster, where a test can do what a node does."""

    cluster: FakeKubernetes

    def pods(self) -> list[FakePod]:
        """Return this yard's pods."""
        everyone = self.cluster.pods.values()
        return [
            pod for pod in everyone if pod.body["metadata"]["labels"]["choir.claim"] == self.claim
        ]

    async def kill(self) -> None:
        """Kill the only agent's process from outside."""
        self.cluster.signal(self.pods()[0], 9)

    async def remove(self) -> None:
        """Remove the only pod from outside."""
        self.cluster.remove(self.pods()[0])

    async def cut_events(self) -> None:
        """Break the watches' connections."""
        self.cluster.cut_watches()


def make_runtime(home: Path, image: str, claim: str, api: PodApi) -> KubernetesRuntime:
    """Make a runtime whose agents run `image`."""
    return KubernetesRuntime(home=home, image=image, claim=claim, api=api, user=USER)


@contextlib.asynccontextmanager
async def fake_yard_for(cluster: FakeKubernetes, image: str) -> AsyncIterator[FakePodYard]:
    """Make a yard on a fake cluster; nothing of it is left afterwards."""
    home = Path(tempfile.mkdtemp(prefix="choir-k8s-")).resolve()
    claim = home.name.lower().replace("_", "-").strip("-")
    cluster.volumes[claim] = home
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        if not cluster.url:
            await stack.enter_async_context(cluster.serve())
            stack.callback(setattr, cluster, "url", "")
        config = cluster.kubeconfig(home / "kubeconfig")

        def api() -> PodApi:
            return PodApi(NAMESPACE, config)

        runtime = make_runtime(home, image, claim, api())
        stack.push_async_callback(runtime.close)
        yield FakePodYard(home, image, claim, api, runtime, cluster)
