"""The Kubernetes cluster of the nightly tests: that of KUBECONFIG, which `.ci/run` starts."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

KUBECONFIG = os.environ.get("KUBECONFIG", "")
DEADLINE_S = 300.0


def need_cluster() -> Path:
    """Return the kubeconfig; the test is skipped where there is none."""
    if not KUBECONFIG:
        pytest.skip("NO KUBECONFIG: nothing is tested on a real cluster here")
    return Path(KUBECONFIG)


def kubectl(*arguments: str, stdin: str = "", check: bool = True) -> str:
    """Run kubectl and return what it prints."""
    beside = Path(KUBECONFIG).parent / "bin" / "kubectl"
    program = str(beside) if beside.exists() else shutil.which("kubectl") or "kubectl"
    done = subprocess.run(
        [program, "--kubeconfig", KUBECONFIG, *arguments],
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
