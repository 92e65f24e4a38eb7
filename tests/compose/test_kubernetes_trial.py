"""The trial on a real cluster: the guide's lines, a conversation, and the death of every pod."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import kubectl, need_cluster, volume_of

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
TRIAL = str(ROOT / "deploy" / "kubernetes" / "overlays" / "trial")
MENDED_WITHIN_S = 600.0
SERVICES = ("control", "memory", "gateway", "browser", "nats", "rehearsal", "postgres")


@pytest.fixture(scope="module")
def trial() -> Iterator[None]:
    """Build the images, apply the overlay and wait until all is there."""
    need_cluster()
    subprocess.run(["docker", "compose", "build"], cwd=ROOT, check=True, timeout=3_600)
    kubectl("apply", "-k", TRIAL)
    try:
        for claim in ("choir-home", "choir-gateway", "data-postgres-0"):
            # this provisioner makes directories of root; those of disks give them to the pod's group
            volume_of("choir", claim).chmod(0o777)
        wait_until_available()
        yield
    finally:
        kubectl("delete", "-k", TRIAL, "--wait=false", check=False)
        kubectl("-n", "choir", "delete", "pods", "--all", "--now", check=False)


def wait_until_available() -> None:
    """Wait for every Deployment and for the database."""
    within = f"--timeout={MENDED_WITHIN_S:.0f}s"
    kubectl("-n", "choir", "rollout", "status", "statefulset/postgres", within)
    kubectl("-n", "choir", "wait", "--for=condition=available", "deployment", "--all", within)


def chat(text: str) -> str:
    """Say something to the agent until it answers; a cut connection is tried again."""
    until = time.monotonic() + MENDED_WITHIN_S
    while True:
        control = ("-n", "choir", "exec", "deploy/control", "--", "choirctl")
        answer = kubectl(*control, "chat", "-m", text, check=False)
        if answer.strip():
            return answer
        assert time.monotonic() < until, kubectl("-n", "choir", "get", "pods", "-o", "wide")
        time.sleep(2)


def test_the_guide_is_followed_and_an_agent_answers_from_a_pod(trial: None) -> None:
    section = (ROOT / "docs/kubernetes.md").read_text().partition("# Kubernetes\n\n```\n")[2]
    lines = section.partition("```")[0].splitlines()
    assert lines[:2] == [
        "docker compose build",
        "kubectl apply -k deploy/kubernetes/overlays/trial",
    ]
    for line in lines[2:]:
        assert kubectl(*line.removeprefix("kubectl ").split()).strip(), line
    assert kubectl("-n", "choir", "get", "pods", "-l", "choir.managed=true", "-o", "name").strip()


@pytest.mark.parametrize("name", [*SERVICES, "agent"])
def test_the_death_of_a_pod_is_mended(trial: None, name: str) -> None:
    label = "choir.managed=true" if name == "agent" else f"app={name}"
    kubectl("-n", "choir", "delete", "pods", "-l", label, "--force", "--grace-period=0")
    wait_until_available()
    assert chat(f"hello after the death of {name}")
