"""The posture of a build's Job in its manifest, as the API server gets it, and what its end means."""

import json
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it ships no types
import pytest

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.identity_dir import ImageVersion
from choir_control.images.job.manifest import BuiltImage, JobSite, job_manifest, job_name
from choir_control.images.job.outcome import result, start_fault

GOLDEN = Path(__file__).parent / "golden" / "build_job.json"
SITE = JobSite(
    claim="choir-home",
    repository="registry.example/choir/agents",
    agent_image="registry.example/choir-agent:0.1.0",
    builder_image="choir-builder:local",
    secret="choir-registry",
    seccomp_profile="",
    memory_bytes=2 << 30,
    cpus=2,
    disk_bytes=10 << 30,
    timeout_s=1_800,
)
BUILT = BuiltImage(digest="sha256:1", version=ImageVersion(agent_id="main"))


def test_the_manifest_is_the_one_that_was_reviewed() -> None:
    """A change here moves the boundary: review it against decision 124, then update the file."""
    manifest = job_manifest(SITE, "main", b"the context")
    assert manifest == json.loads(GOLDEN.read_text())
    kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_what_executes_foreign_code_has_neither_the_credential_nor_the_notes() -> None:
    pod: Any = job_manifest(SITE, "main", b"")["spec"]["template"]["spec"]  # type: ignore[index,call-overload]
    fetch, build = pod["initContainers"]
    (push,) = pod["containers"]
    mounts = {one["name"]: one["volumeMounts"] for one in (fetch, build, push)}
    with_credential = [
        name for name, found in mounts.items() if "registry" in {it["name"] for it in found}
    ]
    assert with_credential == ["fetch", "push"]
    writes_notes = [
        name
        for name, found in mounts.items()
        if not next(it for it in found if it["name"] == "notes")["readOnly"]
    ]
    assert writes_notes == ["fetch"]
    assert pod["automountServiceAccountToken"] is False
    assert build["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["SETGID", "SETUID"],
    }


def test_names_of_agents_that_look_alike_stay_apart() -> None:
    names = {job_name(SITE, agent) for agent in ("a-b", "a_b", "x" * 60, "x" * 61)}
    assert len(names) == 4
    assert max(map(len, names)) <= 57


def ended(step: str = "push", code: int = 0, message: str = "", reason: str = "") -> dict[str, Any]:
    """Return a pod one of whose steps has ended last."""
    state = {"terminated": {"exitCode": code, "message": message, "reason": reason}}
    kind = "containerStatuses" if step == "push" else "initContainerStatuses"
    status = {kind: [{"name": step, "state": state}], "phase": "Failed" if code else "Succeeded"}
    return {"status": status}


LATE = {
    "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}
}
EVICTED = {"status": {"phase": "Failed", "reason": "Evicted", "message": "Usage of EmptyDir"}}


@pytest.mark.parametrize(
    ("job", "pod", "kind", "words"),
    [
        (LATE, None, InvalidRequest, "timeout (CHOIR_BUILD_WITHIN_S)"),
        ({}, EVICTED, InvalidRequest, "Usage of EmptyDir (CHOIR_BUILD_DISK_MB)"),
        ({}, ended("build", 1, "building at STEP"), InvalidRequest, "cannot be built: building at"),
        ({}, ended("build", 137, "", "OOMKilled"), InvalidRequest, "out of memory"),
        ({}, ended("push", 1, "denied"), Unavailable, "cannot be pushed to CHOIR_BUILD_REPO"),
        ({}, ended("fetch", 1, "no such host"), Unavailable, "cannot be read from its registry"),
        ({}, None, Unavailable, "its node was lost"),
        ({}, ended(message="nonsense"), Unavailable, "without a result"),
    ],
)
def test_each_way_to_fail_is_said(job: Any, pod: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as error:
        result(job, pod)
    assert words in str(error.value)


def test_a_result_is_what_push_says_or_fetch_if_the_image_was_there() -> None:
    for step in ("push", "fetch"):
        assert result({}, ended(step, message=BUILT.model_dump_json())) == BUILT


def test_a_missing_image_of_the_builder_is_said_at_once() -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    pod = {"status": {"initContainerStatuses": [{"name": "fetch", "state": waiting}]}}
    fault = start_fault(pod)
    assert fault is not None
    assert "CHOIR_BUILDER_IMAGE" in str(fault)
    assert start_fault(ended()) is None
