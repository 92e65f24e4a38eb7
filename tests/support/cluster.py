"""The Kubernetes cluster of the nightly tests: that of KUBECONFIG, which `.ci/run` starts."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OVERLAYS = ROOT / "deploy" / "kubernetes" / "overlays"
NAMESPACE = "choir"
LEADER, AGENT = "choir.leader=choir-home", "choir.managed=true"
"""Labels of the leading pod of control, and of agents' pods."""
MENDED_WITHIN_S = 600.0
KUBECONFIG = os.environ.get("KUBECONFIG", "")
DEADLINE_S = 300.0


def need_cluster() -> Path:
    """Return the kubeconfig; the test is skipped where there is none."""
    if not KUBECONFIG:
        pytest.skip("NO KUBECONFIG: nothing is tested on a real cluster here")
    return Path(KUBECONFIG)


def kubectl_command(*arguments: str) -> list[str]:
    """Return the command that runs kubectl on the cluster."""
    beside = Path(KUBECONFIG).parent / "bin" / "kubectl"
    program = str(beside) if beside.exists() else shutil.which("kubectl") or "kubectl"
    return [program, "--kubeconfig", KUBECONFIG, *arguments]


def kubectl(*arguments: str, stdin: str = "", check: bool = True) -> str:
    """Run kubectl and return what it prints."""
    done = subprocess.run(
        kubectl_command(*arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
    )
    assert not check or done.returncode == 0, f"{arguments}: {done.stderr[-2000:]}"
    return done.stdout


def apply(*manifests: dict[str, Any]) -> None:
    """Create objects, or change them."""
    kubectl(
        "apply",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}),
    )


def kubectl_pods(label: str) -> dict[str, tuple[str, bool]]:
    """Return the living pods with a label by name: each one's uid, and whether it is ready."""
    found = json.loads(kubectl("-n", NAMESPACE, "get", "pods", "-l", label, "-o", "json"))
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], _is_ready(pod))
        for pod in found["items"]
        if "deletionTimestamp" not in pod["metadata"]
    }


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def volume_of(namespace: str, claim: str) -> Path:
    """Return the directory of a bound claim on this machine."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        name = kubectl("-n", namespace, "get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}")
        if name:
            path = kubectl("get", "pv", name, "-o", "jsonpath={.spec.hostPath.path}")
            if path and Path(path).is_dir():
                return Path(path)
        time.sleep(0.5)
    raise AssertionError(f"the claim {claim} was not bound")


def rendered(overlay: str) -> list[dict[str, Any]]:
    """Return the objects of an overlay as kubectl renders them."""
    return list(yaml.safe_load_all(kubectl("kustomize", str(OVERLAYS / overlay))))


def build_images() -> None:
    """Build the images of Choir from this folder."""
    subprocess.run(["docker", "compose", "build"], cwd=ROOT, check=True, timeout=3_600)


def wait_until_available() -> None:
    """Wait for every Deployment and for the database."""
    within = f"--timeout={MENDED_WITHIN_S:.0f}s"
    kubectl("-n", NAMESPACE, "rollout", "status", "statefulset/postgres", within)
    kubectl("-n", NAMESPACE, "wait", "--for=condition=available", "deployment", "--all", within)


def chat(text: str, attempts: int = 1_000) -> str:
    """Say something to the agent until it answers; a cut connection is tried again."""
    until = time.monotonic() + MENDED_WITHIN_S
    for attempt in range(1, attempts + 1):
        control = ("-n", NAMESPACE, "exec", "service/control", "--", "choirctl")
        answer = kubectl(*control, "chat", "-m", text, check=False)
        if answer.strip():
            return answer
        is_last = attempt == attempts or time.monotonic() > until
        assert not is_last, kubectl("-n", NAMESPACE, "get", "pods", "-o", "wide")
        time.sleep(2)
    raise AssertionError("no attempt")


def remove_namespace() -> None:
    """Delete Choir's namespace with all that is in it, and wait until it is gone."""
    kubectl("delete", "namespace", NAMESPACE, "--wait=false", "--ignore-not-found")
    kubectl("-n", NAMESPACE, "delete", "pods", "--all", "--now", check=False)
    within = f"--timeout={DEADLINE_S:.0f}s"
    kubectl("wait", "--for=delete", f"namespace/{NAMESPACE}", within, check=False)
