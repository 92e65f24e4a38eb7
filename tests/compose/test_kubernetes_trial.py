"""The trial on a real cluster: the guide's lines, a conversation, and the death of every pod."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import (
    NAMESPACE,
    OVERLAYS,
    ROOT,
    build_images,
    chat,
    kubectl,
    need_cluster,
    remove_namespace,
    volume_of,
    wait_until_available,
)

pytestmark = pytest.mark.nightly

SERVICES = ("control", "memory", "gateway", "browser", "egress", "nats", "rehearsal", "postgres")


@pytest.fixture(scope="module")
def trial() -> Iterator[None]:
    """Build the images, apply the overlay and wait until all is there."""
    need_cluster()
    build_images()
    kubectl("apply", "-k", str(OVERLAYS / "trial"))
    try:
        for claim in ("choir-home", "choir-gateway", "data-postgres-0"):
            # this provisioner makes directories of root; those of disks give them to the pod's group
            volume_of(NAMESPACE, claim).chmod(0o777)
        wait_until_available()
        yield
    finally:
        remove_namespace()


def test_the_guide_is_followed_and_an_agent_answers_from_a_pod(trial: None) -> None:
    section = (ROOT / "docs/kubernetes.md").read_text().partition("# Kubernetes\n\n```\n")[2]
    lines = section.partition("```")[0].splitlines()
    assert lines[:2] == [
        "docker compose build",
        "kubectl apply -k deploy/kubernetes/overlays/trial",
    ]
    for line in lines[2:]:
        assert kubectl(*line.removeprefix("kubectl ").split()).strip(), line
    assert kubectl("-n", NAMESPACE, "get", "pods", "-l", "choir.managed=true", "-o", "name").strip()
    # its model was asked through the proxy
    assert '"agent": "main"' in kubectl("-n", NAMESPACE, "logs", "deploy/egress")


def test_an_agent_pod_that_is_taken_over_gets_nothing_from_the_proxy(trial: None) -> None:
    code = f"""
import socket, ssl
context = ssl._create_unverified_context()
for greeting in (b"", b"main {"0" * 64}\\n", b"other {"0" * 64}\\n"):
    with socket.create_connection(("egress", 9405), 20) as plain:
        with context.wrap_socket(plain) as way:
            way.sendall(greeting + b"CONNECT rehearsal:8080 HTTP/1.1\\r\\n\\r\\n")
            print(way.recv(100))
for name in ("rehearsal", "example.com"):
    try:
        print(socket.gethostbyname(name))
    except OSError:
        print("unknown")
"""
    name = kubectl(
        "-n", NAMESPACE, "get", "pods", "-l", "choir.managed=true", "-o", "name"
    ).split()[0]
    found = kubectl("-n", NAMESPACE, "exec", name, "--", "python3", "-I", "-c", code)
    assert found.split() == ["b''"] * 3 + ["unknown"] * 2


@pytest.mark.parametrize("name", [*SERVICES, "agent"])
def test_the_death_of_a_pod_is_mended(trial: None, name: str) -> None:
    label = "choir.managed=true" if name == "agent" else f"app={name}"
    kubectl("-n", NAMESPACE, "delete", "pods", "-l", label, "--force", "--grace-period=0")
    wait_until_available()
    assert chat(f"hello after the death of {name}")
