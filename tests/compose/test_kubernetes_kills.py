"""Production on a real cluster under load: every part is killed again and again, and updated.

Nothing is lost and nothing doubled: see `ClusterLoad.check`. It prints how long each part takes to be back,
and how long a message that was said meanwhile waited for its answer at most.
"""

import json
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.support.cluster import (
    AGENT,
    LEADER,
    MENDED_WITHIN_S,
    NAMESPACE,
    kubectl,
    kubectl_pods,
    wait_until_available,
)
from tests.support.cluster_load import ClusterLoad

pytestmark = pytest.mark.nightly

ROUNDS = int(os.environ.get("CHOIR_POD_KILL_ROUNDS", "1"))
ROUNDS_PER_UPDATE = 4
TURN_S, LOOK_S = 0.8, 0.3
PARTS = {
    "control (the leader)": LEADER,
    "gateway (one of two)": "app=gateway",
    "memory (one of two)": "app=memory",
    "browser": "app=browser",
    "egress": "app=egress",
    "nats (one of three)": "app=nats",
    "postgres": "app=postgres",
    "an agent": AGENT,
}
"""The label that selects a part's pods; one of them is killed in each round."""
UPDATED = ("control", "gateway", "memory", "browser", "egress")


def kill_one(label: str) -> tuple[float, float]:
    """Kill one of the pods with a label, without grace.

    Return when, and the seconds until as many are ready again.
    """
    alive = kubectl_pods(label)
    victim = random.choice(sorted(alive))
    kubectl("-n", NAMESPACE, "delete", "pod", victim, "--force", "--grace-period=0")
    began = time.monotonic()
    while time.monotonic() - began < MENDED_WITHIN_S:
        now = kubectl_pods(label)
        ready = {uid for uid, is_ready in now.values() if is_ready}
        if len(ready - {alive[victim][0]}) >= len(alive):
            return began, time.monotonic() - began
        time.sleep(LOOK_S)
    raise AssertionError(f"{label}: {kubectl('-n', NAMESPACE, 'get', 'pods', '-o', 'wide')}")


def update_all() -> int:
    """Replace the pods of every service by new ones, as an update does; return how many."""
    names = [f"deployment/{name}" for name in UPDATED]
    kubectl("-n", NAMESPACE, "rollout", "restart", *names, "statefulset/nats")
    for what in [*names, "statefulset/nats"]:
        kubectl("-n", NAMESPACE, "rollout", "status", what, f"--timeout={MENDED_WITHIN_S:.0f}s")
    found = json.loads(kubectl("-n", NAMESPACE, "get", *names, "statefulset/nats", "-o", "json"))
    return sum(int(one["spec"]["replicas"]) for one in found["items"])


@pytest.fixture
def load(production: None) -> Iterator[ClusterLoad]:
    """Make a user, whose first message is answered."""
    control = ("-n", NAMESPACE, "exec", "service/control", "--", "choirctl", "config")
    kubectl(*control, "set", "budgets.total_session_tokens", "2000000000")
    for step in ("load", "apply"):
        kubectl(*control, step)
    load = ClusterLoad()
    load.ask()
    yield load
    load.close()


def test_killed_and_updated_pods_lose_and_double_nothing(load: ClusterLoad) -> None:
    ready, answered = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    replaced = 0
    for number in range(ROUNDS):
        for part, label in PARTS.items():
            with load.talking():
                time.sleep(random.uniform(0, TURN_S))
                killed, seconds = kill_one(label)
            load.ask()
            ready[part].append(seconds)
            answered[part].append(load.longest_wait(killed))
            print(f"{part}: ready {seconds:.1f}, answered {answered[part][-1]:.1f}", flush=True)
        if number % ROUNDS_PER_UPDATE == 0:
            with load.talking():
                replaced += update_all()
            wait_until_available()
        print(f"round {number + 1}: {load.check()}; {replaced} pods updated", flush=True)
    kills = sum(len(times) for times in ready.values())
    print(f"{kills} kills and {replaced} replaced pods: {load.check()}")
    for part in PARTS:
        for what, times in (("ready", ready[part]), ("answered", answered[part])):
            print(f"{part}: {what} median {statistics.median(times):.1f}, worst {max(times):.1f}")
