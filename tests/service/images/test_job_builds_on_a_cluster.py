"""A repository with RUN is built by a Job of a real cluster, pushed to a real registry, and used by a pod."""

import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from choir_common.errors import InvalidRequest, Unavailable
from choir_control.agents.runtimes.kubernetes.api import PodApi
from choir_control.agents.runtimes.kubernetes.job_api import BuildApi
from choir_control.images.job.builder import JobImageBuilder
from choir_control.images.job.manifest import JobSite
from tests.service.images.forge import Forge, Told, a_manifest
from tests.service.runtimes.containers import PYTHON_IMAGE, connect
from tests.service.runtimes.pods import PodYard, make_runtime
from tests.support.cluster import apply, kubectl, need_cluster, volume_of
from tests.support.cluster_registry import (
    BUILDER,
    SECRET,
    Registry,
    build_builder,
    running_registry,
)

pytestmark = pytest.mark.nightly

NAMESPACE = f"choir-test-builds-{secrets.token_hex(3)}"
AGENT = """
FROM {python}
RUN mkdir -p /opt/agent/bin && ln -s $(command -v python3) /opt/agent/bin/python
RUN printf '%s\\n' 'import json, pathlib, subprocess, sys, time' 'sys.stdin.readline()' \\
  'said = subprocess.run(["/choir/tools/agent/c/c"], capture_output=True, text=True).stdout' \\
  'pathlib.Path("/workspace/report.json").write_text(json.dumps(said))' \\
  'time.sleep(600)' \\
  > $(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/choir_agent.py
"""
MAKES_A_TOOL = """
FROM choir-base
RUN useradd --system maker && install -d -o maker /made
RUN printf '#!/bin/sh\\necho made by $(stat -c %%U /made)\\n' > /choir/tools/agent/c/c \\
    && chmod 755 /choir/tools/agent/c/c
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Run a registry that pods and the node reach."""
    need_cluster()
    with running_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="module")
def agent_image(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Push an agent that runs the tool once, and build the builder's image."""
    client, name = connect(), f"{registry.address}/choir-agent:test"
    folder = tmp_path_factory.mktemp("agent")
    (folder / "Dockerfile").write_text(AGENT.format(python=PYTHON_IMAGE))
    subprocess.run(["docker", "build", "--quiet", "--tag", name, folder], check=True)
    client.images.push(name, auth_config=registry.login)
    build_builder()
    yield name
    client.images.remove(name, force=True)
    client.close()


@pytest.fixture(scope="module")
def namespace(registry: Registry) -> Iterator[str]:
    """Make a namespace whose pods may pull from the registry."""
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    until = time.monotonic() + 60
    while not kubectl("-n", NAMESPACE, "get", "serviceaccount", "default", check=False):
        assert time.monotonic() < until
        time.sleep(0.5)
    apply(registry.secret(NAMESPACE))
    pull = json.dumps({"imagePullSecrets": [{"name": SECRET}]})
    kubectl("-n", NAMESPACE, "patch", "serviceaccount", "default", "-p", pull)
    yield NAMESPACE
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
def site(registry: Registry, agent_image: str, namespace: str) -> JobSite:
    """Return settings of builds."""
    return JobSite(
        claim="home",
        repository=f"{registry.address}/choir/agents",
        agent_image=agent_image,
        builder_image=BUILDER,
        secret=SECRET,
        seccomp_profile="",
        memory_bytes=1 << 30,
        cpus=2.0,
        disk_bytes=10 << 30,
        timeout_s=300,
    )


def builder(site: JobSite) -> JobImageBuilder:
    """Return a builder with a connection of its own."""
    return JobImageBuilder(site, BuildApi(NAMESPACE, Path(os.environ["KUBECONFIG"])))


async def test_run_makes_a_tool_that_an_agent_uses_in_its_pod(
    site: JobSite, tmp_path: Path
) -> None:
    forge = Forge(tmp_path, builder(site))
    forge.fill_own(
        Dockerfile=MAKES_A_TOOL,
        **{"tools/c.json": a_manifest("my.c", exec_path="c/c"), "tools/c/README": "made by RUN"},
    )
    told = Told()
    built = await forge.images.build("main", told)
    assert any("useradd" in line for line in told.lines)
    again = Told()
    assert not (await forge.images.build("main", again)).is_new
    assert not any("STEP" in line for line in again.lines)
    await forge.builder.close()
    assert_nothing_is_left()
    assert await said_by_an_agent(built.image.place) == "made by maker\n"


def assert_nothing_is_left() -> None:
    """Wait for the end of what is being deleted; nothing else may be there."""
    found = json.loads(kubectl("-n", NAMESPACE, "get", "jobs", "-o", "json"))["items"]
    assert all("deletionTimestamp" in job["metadata"] for job in found)
    kubectl("-n", NAMESPACE, "wait", "--for=delete", "jobs", "--all", "--timeout=60s", check=False)
    assert kubectl("-n", NAMESPACE, "get", "jobs,pods", "-o", "name") == ""


async def said_by_an_agent(image: str) -> str:
    """Start an agent in a pod from an image, and return what it reports."""
    size = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    metadata = {"name": "home", "namespace": NAMESPACE}
    apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": size})
    home, config = volume_of(NAMESPACE, "home"), Path(os.environ["KUBECONFIG"])

    def api() -> PodApi:
        return PodApi(NAMESPACE, config)

    runtime = make_runtime(home, "unused", "home", api())
    yard = PodYard(home, "unused", "home", api, runtime)
    try:
        await runtime.start(replace(yard.spec(), docker_image=image))
        return str(await yard.report())
    finally:
        await runtime.close()


@pytest.mark.parametrize(
    ("change", "dockerfile", "kind", "words"),
    [
        ({}, "FROM choir-base\nRUN echo so && exit 3\n", InvalidRequest, "exit status 3"),
        ({"timeout_s": 25}, "FROM choir-base\nRUN sleep 600\n", InvalidRequest, "BUILD_WITHIN_S"),
        (
            {"memory_bytes": 256 << 20},
            "FROM choir-base\nRUN python3 -c 'b = bytearray(10**9)'\n",
            InvalidRequest,
            "cannot be built",
        ),
        ({"secret": "absent"}, "FROM choir-base\n", Unavailable, "registry"),
    ],
    ids=["failed", "late", "large", "refused"],
)
async def test_a_build_that_fails_is_said_and_leaves_nothing(
    site: JobSite,
    tmp_path: Path,
    change: dict[str, Any],
    dockerfile: str,
    kind: type[Exception],
    words: str,
) -> None:
    forge = Forge(tmp_path, builder(replace(site, **change)))
    forge.fill_own(Dockerfile=dockerfile)
    with pytest.raises(kind, match=words):
        await forge.images.build("main", Told())
    await forge.builder.close()
    assert forge.shelf.get_current("main") is None
    assert_nothing_is_left()
