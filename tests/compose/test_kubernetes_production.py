"""The production overlay on a real cluster of one node, and every object of both checked by its server.

`production_overlay` says what is replaced there. The cluster enforces no NetworkPolicies, and has neither an
ingress controller nor a metrics server.
"""

import contextlib
import json
import re
import time
from pathlib import Path

import pytest
from docker.errors import APIError

from tests.compose.production_overlay import on_this_cluster
from tests.service.runtimes.containers import connect
from tests.support.cluster import (
    LEADER,
    MENDED_WITHIN_S,
    NAMESPACE,
    ROOT,
    apply,
    chat,
    kubectl,
    kubectl_pods,
    need_cluster,
    wait_until_available,
)
from tests.support.cluster_load import ClusterLoad

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("overlay", ["trial", "production"])
def test_the_api_server_accepts_every_object(overlay: str) -> None:
    need_cluster()
    objects = on_this_cluster(overlay)
    apply(*(one for one in objects if one["kind"] == "Namespace"))  # the others need it
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    answer = kubectl("apply", "--dry-run=server", "-f", "-", stdin=items)
    accepted = [line for line in answer.splitlines() if line.endswith("(server dry run)")]
    assert len(accepted) == len(objects)


def test_the_guides_own_overlay_changes_what_is_marked(tmp_path: Path) -> None:
    need_cluster()
    files = re.findall(
        r"```yaml\n# (\S+)\n(.*?)```", (ROOT / "docs/kubernetes.md").read_text(), re.DOTALL
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "choir").symlink_to(ROOT)
    for name, text in files:
        # kubectl of 1.20 calls directories `bases`
        (tmp_path / "mine" / name).write_text(text.replace("resources:", "bases:"))
    shown = kubectl("kustomize", str(tmp_path / "mine"))
    for value in (
        "ghcr.io/me/choir-control:0.2.0",
        "storageClassName: nfs",
        "https://choir.my.org",
    ):
        assert value in shown
    assert "registry.example/choir-control" not in shown
    assert "postgres-rw" in shown  # what it does not name stays


def test_an_agent_answers_and_every_part_has_its_replicas(production: None) -> None:
    assert chat("hello to production")
    found = json.loads(kubectl("-n", NAMESPACE, "get", "deployments,statefulsets", "-o", "json"))
    ready = {
        one["metadata"]["name"]: one["status"].get("readyReplicas", 0) for one in found["items"]
    }
    assert ready == {
        "control": 2,
        "gateway": 2,
        "browser": 1,
        "egress": 1,
        "memory": 2,
        "nats": 3,
        "postgres": 1,
        "rehearsal": 1,
    }


def test_the_servers_of_the_bus_are_one_cluster(production: None) -> None:
    for number in range(3):
        log = kubectl("-n", NAMESPACE, "logs", f"nats-{number}")
        assert "Route connection created" in log


@pytest.mark.parametrize("pod", ["nats-0", "memory"])
def test_a_replica_dies_and_the_next_message_is_answered(production: None, pod: str) -> None:
    name = pod
    if pod == "memory":
        names = kubectl("-n", NAMESPACE, "get", "pods", "-l", "app=memory", "-o", "name")
        name = names.split()[0].removeprefix("pod/")
    kubectl("-n", NAMESPACE, "delete", "pod", name, "--force", "--grace-period=0")
    # not waited for: the others carry on
    assert chat(f"hello without {pod}", attempts=1)
    wait_until_available()


def test_a_leader_that_hangs_is_replaced_and_nothing_is_lost_or_doubled(production: None) -> None:
    load, client = ClusterLoad(), connect()
    load.ask()
    (leader,) = kubectl_pods(LEADER)
    labels = [f"io.kubernetes.pod.name={leader}", "io.kubernetes.container.name=control"]
    (container,) = client.containers.list(filters={"label": labels})
    with load.talking():
        container.pause()  # its connections stay open, as when its node hangs
        paused = time.monotonic()
        while set(kubectl_pods(LEADER)) <= {leader}:
            assert time.monotonic() - paused < MENDED_WITHIN_S
            time.sleep(0.3)
    load.ask()
    print(f"a message waited {load.longest_wait(paused):.1f} s")
    with contextlib.suppress(APIError):  # its probe may have failed meanwhile
        container.unpause()
    wait_until_available()
    load.ask()
    print(load.check())
    load.close()
    client.close()


def test_a_rolling_update_of_the_bus_and_memory_loses_no_message(production: None) -> None:
    kubectl("-n", NAMESPACE, "rollout", "restart", "statefulset/nats", "deployment/memory")
    for number in range(5):
        assert chat(f"message {number} of the update", attempts=1)
    for what in ("statefulset/nats", "deployment/memory"):
        kubectl("-n", NAMESPACE, "rollout", "status", what, "--timeout=600s")
    assert chat("after the update", attempts=1)
