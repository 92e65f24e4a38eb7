"""An agent whose Dockerfile has RUN, built and updated by choirctl on a real cluster with a registry.

Control is killed while a Job builds. The update ends as interrupted, no Job is left, the agent keeps
the image that it had, and the next update succeeds.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.service.images.forge import ECHO, GitRepository, a_manifest
from tests.service.runtimes.containers import connect
from tests.support.cluster import (
    AGENT,
    LEADER,
    MENDED_WITHIN_S,
    NAMESPACE,
    ROOT,
    apply,
    kubectl,
    kubectl_command,
    kubectl_pods,
    need_cluster,
    volume_of,
    wait_until_available,
)
from tests.support.cluster_load import ClusterLoad
from tests.support.cluster_registry import (
    BUILDER,
    Registry,
    build_builder,
    running_registry,
)

pytestmark = pytest.mark.nightly

BUILDS = "choir-builds"
CHOIRCTL = ("-n", NAMESPACE, "exec", "service/control", "--", "choirctl")
MAKES = "FROM choir-base\nRUN useradd --system {user} && install -d -o {user} /made{more}\n"
OWNER = 10001


@pytest.fixture(scope="module")
def image_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Run a registry that has the agent's image."""
    need_cluster()
    with running_registry(tmp_path_factory.mktemp("images")) as registry:
        yield registry


@pytest.fixture(scope="module")
def builds(image_registry: Registry, production: None) -> Iterator[None]:
    """Do what the guide says about images of agents."""
    registry, client = image_registry, connect()
    agent = f"{registry.address}/choir-agent:test"
    client.images.get("choir-agent:local").tag(agent)
    client.images.push(agent, auth_config=registry.login)
    build_builder()
    guide = (ROOT / "docs/kubernetes.md").read_text()
    assert "kubectl apply -k deploy/kubernetes/builds" in guide
    kubectl("apply", "-k", str(ROOT / "deploy/kubernetes/builds"))
    for namespace in (NAMESPACE, BUILDS):
        apply(registry.secret(namespace))
    pull = re.findall(r"patch serviceaccount default -p '(.*)'", guide)
    kubectl("-n", NAMESPACE, "patch", "serviceaccount", "default", "-p", pull[0])
    kubectl(
        *("-n", NAMESPACE, "set", "env", "deployment/control", f"CHOIR_AGENT_IMAGE={agent}"),
        f"CHOIR_BUILD_REPOSITORY={registry.address}/choir/agents",
        f"CHOIR_BUILDER_IMAGE={BUILDER}",
    )
    kubectl("-n", NAMESPACE, "rollout", "status", "deployment/control", "--timeout=600s")
    wait_for_new_leader()
    try:
        yield
    finally:
        kubectl("delete", "namespace", BUILDS, "--wait=false")
        client.images.remove(agent, force=True)
        client.close()


def wait_for_new_leader() -> None:
    """Wait until one pod of control leads, and none is about to end."""
    until = time.monotonic() + MENDED_WITHIN_S
    while time.monotonic() < until:
        names = kubectl("-n", NAMESPACE, "get", "pods", "-l", LEADER, "-o", "name").split()
        if len(names) == len(kubectl_pods(LEADER)) == 1:
            return
        time.sleep(0.5)
    raise AssertionError(kubectl("-n", NAMESPACE, "get", "pods", "-o", "wide"))


@pytest.fixture(scope="module")
def repository(builds: None) -> GitRepository:
    """Give the agent a repository in the volume."""
    own = GitRepository(volume_of(NAMESPACE, "choir-home") / "home" / "own.git")
    commit(own, MAKES.format(user="maker", more=""))
    kubectl(*CHOIRCTL, "config", "set", "agents.main.repo.url", "/var/lib/choir/home/own.git")
    for step in ("load", "apply"):
        kubectl(*CHOIRCTL, "config", step)
    return own


def commit(own: GitRepository, dockerfile: str) -> None:
    """Commit a Dockerfile and a tool; the files belong to control."""
    files = {"Dockerfile": dockerfile, "tools/say.json": a_manifest("house.say")}
    own.commit({**files, "tools/say": ECHO % "own"}, ("tools/say",))
    subprocess.run(["chown", "-R", f"{OWNER}:{OWNER}", own.path], check=True)


def made_by() -> str:
    """Return the owner of what RUN made, as the agent's pod sees it."""
    (name,) = kubectl_pods(AGENT)
    assert "/choir/agents@sha256:" in image()
    return kubectl("-n", NAMESPACE, "exec", name, "--", "stat", "-c", "%U", "/made").strip()


def image() -> str:
    """Return the image of the agent's pod; its node may still clear up an earlier one."""
    (name,) = kubectl_pods(AGENT)
    path = "jsonpath={.spec.containers[0].image}"
    return kubectl("-n", NAMESPACE, "get", "pod", name, "-o", path)


def wait_for_run() -> None:
    """Wait until a Job executes a Dockerfile."""
    until = time.monotonic() + MENDED_WITHIN_S
    while time.monotonic() < until:
        for pod in json.loads(kubectl("-n", BUILDS, "get", "pods", "-o", "json"))["items"]:
            states = pod["status"].get("initContainerStatuses", [])
            if any(one["name"] == "build" and "running" in one["state"] for one in states):
                return
        time.sleep(0.2)
    raise AssertionError(kubectl("-n", BUILDS, "describe", "pods"))


def assert_no_build_is_left() -> None:
    """Wait until no Job and no pod of one is there."""
    within = f"--timeout={MENDED_WITHIN_S:.0f}s"
    kubectl("-n", BUILDS, "wait", "--for=delete", "jobs,pods", "--all", within, check=False)
    assert kubectl("-n", BUILDS, "get", "jobs,pods", "-o", "name") == ""


def test_choirctl_builds_and_updates_an_agent_while_it_is_asked(repository: GitRepository) -> None:
    load = ClusterLoad()
    load.ask()
    assert "built" in kubectl(*CHOIRCTL, "agent", "build", "main")
    with load.talking():
        kubectl(*CHOIRCTL, "agent", "update", "main")
    assert made_by() == "maker"
    load.ask()
    print(load.check())
    load.close()
    assert_no_build_is_left()


def test_control_that_dies_during_a_build_leaves_no_job_and_no_half_image(
    repository: GitRepository,
) -> None:
    load = ClusterLoad()
    load.ask()
    before = image()
    commit(repository, MAKES.format(user="second", more=" && sleep 20"))
    with load.talking():
        with subprocess.Popen(
            kubectl_command(*CHOIRCTL, "agent", "update", "main"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as update:
            wait_for_run()
            (leader,) = kubectl_pods(LEADER)
            kubectl("-n", NAMESPACE, "delete", "pod", leader, "--force", "--grace-period=0")
            said = update.communicate(timeout=MENDED_WITHIN_S)[0].decode()
        assert update.returncode != 0, said
        wait_until_available()
        assert leader not in kubectl_pods(LEADER)
        assert_no_build_is_left()
    load.ask()
    assert image() == before
    operations = json.loads(kubectl(*CHOIRCTL, "operation", "list", "--json"))
    assert "interrupted" in json.dumps(operations), operations
    with load.talking():
        kubectl(*CHOIRCTL, "agent", "update", "main")
    assert made_by() == "second"
    load.ask()
    print(load.check())
    load.close()
    assert_no_build_is_left()
