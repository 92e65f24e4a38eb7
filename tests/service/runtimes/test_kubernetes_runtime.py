"""The Kubernetes runtime's promises about life and death of agents, against a strict API server."""

import asyncio
import contextlib
from contextlib import AbstractAsyncContextManager, AbstractContextManager

import pytest

from choir_common.errors import Conflict, Unavailable
from choir_common.wire.local_tools import ToolTrialOrder
from choir_control.agents.runtimes.kubernetes.api import PodApi
from tests.service.runtimes.conformance import STUBBORN, WAITS, RuntimeConformance
from tests.service.runtimes.fake_kubernetes import NAMESPACE, FakeKubernetes
from tests.service.runtimes.pods import FakePodYard, fake_yard_for, make_runtime

cluster = FakeKubernetes({"waiting": WAITS, "stubborn": STUBBORN})


@pytest.fixture
def waiting() -> str:
    """Return the image whose agent reports and waits."""
    return "waiting"


class TestKubernetesRuntime(RuntimeConformance):
    """The promises of every runtime with containers."""

    def image(self, code: str) -> AbstractContextManager[str]:
        """Return an image of the cluster's node."""
        images = {program: name for name, program in cluster.images.items()}
        return contextlib.nullcontext(images[code])

    def yard(self, image: str) -> AbstractAsyncContextManager[FakePodYard]:
        """Make a yard with pods."""
        return fake_yard_for(cluster, image)

    async def test_a_lost_node_does_not_keep_an_agent_from_starting_elsewhere(
        self, waiting: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A pod whose node never confirms its end is deleted without it."""
        monkeypatch.setattr("choir_control.agents.runtimes.kubernetes.runtime.KILLED_WITHIN_S", 0.2)
        async with self.yard(waiting) as yard:
            await yard.runtime.start(yard.spec())
            await yard.report()
            cluster.is_cut_off = True
            await yard.runtime.stop("main", 0.1)
            cluster.is_cut_off = False
            assert (await yard.next_exit()).detail.startswith("its pod was removed")
            assert await yard.places() == []

    async def test_a_start_waits_for_the_end_that_the_agent_announced(self, waiting: str) -> None:
        """Control hears of an end from the agent before the node reports it."""
        async with self.yard(waiting) as yard:
            await yard.runtime.start(yard.spec())
            await yard.report()
            starting = asyncio.create_task(yard.runtime.start(yard.spec(epoch=2)))
            await asyncio.sleep(0.1)
            await yard.kill()
            assert (await starting).epoch == 2
            assert (await yard.next_exit()).epoch == 1


async def test_an_agent_starts_again_while_its_node_clears_up_the_earlier_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "clear_up_s", 30.0)
    async with fake_yard_for(cluster, "waiting") as yard, asyncio.timeout(20):
        first = await yard.runtime.start(yard.spec())
        await yard.report()
        await yard.runtime.stop("main", 1)
        second = await yard.runtime.start(yard.spec(epoch=2))
        assert {pod.name for pod in yard.pods()} == {first.handle, second.handle}
        # nor does the next leader wait
        await yard.runtime.hand_over()
        assert await yard.places() == [second.handle]
        next_control = yard.another()
        assert await next_control.remove_orphans() == 1
        assert (await next_control.start(yard.spec(epoch=3))).epoch == 3
        await next_control.close()


async def test_an_api_server_that_is_not_there_is_said_in_a_sentence() -> None:
    async with fake_yard_for(cluster, "unused") as yard:
        config = yard.home / "nowhere"
        text = (yard.home / "kubeconfig").read_text()
        config.write_text(text.replace(cluster.url, "http://127.0.0.1:1"))
        nowhere = make_runtime(yard.home, "x", yard.claim, PodApi(NAMESPACE, config))
        with pytest.raises(Unavailable, match="does not respond"):
            await nowhere.start(yard.spec())
        assert "does not respond" in await nowhere.unavailable_reason()
        assert await yard.runtime.unavailable_reason() == ""
        await nowhere.close()


async def test_the_leaders_pod_alone_has_the_label_that_the_service_selects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fake_yard_for(cluster, "waiting") as yard:
        pods = [await yard.runtime.start(yard.spec(agent)) for agent in ("main", "other")]
        for leader, other in (pods, pods[::-1]):
            monkeypatch.setattr("socket.gethostname", lambda name=leader.handle: name)
            await yard.runtime.claim_address()
            labels = {pod.name: pod.body["metadata"]["labels"] for pod in yard.pods()}
            assert labels[leader.handle]["choir.leader"] == yard.claim
            assert "choir.leader" not in labels[other.handle]


async def test_a_pod_that_another_control_has_started_since_is_not_deleted() -> None:
    async with fake_yard_for(cluster, "waiting") as yard:
        running = await yard.runtime.start(yard.spec())
        await yard.report()
        api = yard.api()
        await api.delete(running.handle, "uid-of-an-earlier-one", 0)
        await api.close()
        assert await yard.places() == [running.handle]


async def test_a_trial_of_a_tool_is_refused_with_the_way_that_works() -> None:
    async with fake_yard_for(cluster, "unused") as yard:
        order = ToolTrialOrder(tool="x.y", input={}, workspace="/w", choir_dir="/c")
        with pytest.raises(Conflict, match="Update the agent, and ask it to use the tool"):
            await yard.runtime.run_trial(yard.spec(), order, 10)


async def test_an_account_without_rights_is_told_which_it_needs() -> None:
    async with fake_yard_for(cluster, "unused") as yard:
        config = yard.home / "stranger"
        text = (yard.home / "kubeconfig").read_text()
        config.write_text(text.replace("token-of-controls", "token-of-anothers"))
        stranger = make_runtime(yard.home, "x", yard.claim, PodApi(NAMESPACE, config))
        with pytest.raises(Unavailable, match="Role of deploy/kubernetes"):
            await stranger.remove_orphans()
        await stranger.close()
