"""Manifest of a build's Job, from a fixed template, and what its containers are told. Pure."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, JsonValue

from choir_common.identity_dir import ImageVersion
from choir_common.wire.model import JsonObject

BUILD = "choir.build"
CLAIM = "choir.claim"
AGENT = "choir.agent"
FETCH, BUILD_STEP, PUSH = STEPS = ("fetch", "build", "push")
KEPT_S = 300
"""Seconds after which the cluster deletes a Job that ended, if control has not."""
END_S = 5
STEP_MEMORY = 512 << 20
UID = 10001
SCRATCH = ("/run/lock", "/var/cache/containers")
"""Where buildah writes besides /work and /tmp."""
MODULE = "choir_control.images.job.steps"
MAPPING_CAPABILITIES = ("SETGID", "SETUID")
"""What root needs to map users into a user namespace; buildah runs in it, as another user than root."""


@dataclass(frozen=True, slots=True)
class JobSite:
    """Settings shared by the builds of one installation."""

    claim: str
    """PersistentVolumeClaim of the state directory; distinguishes installations in one namespace."""
    repository: str
    """Image repository to which agents' images are pushed, such as registry.example/choir/agents."""
    agent_image: str
    builder_image: str
    secret: str
    """Secret with the registry's `.dockerconfigjson` and, for an authority of its own, `ca.crt`."""
    seccomp_profile: str
    """File of a profile on the nodes that allows user namespaces; empty: without a profile."""
    memory_bytes: int
    cpus: float
    disk_bytes: int
    timeout_s: float


class BuiltImage(BaseModel):
    """What the pod tells control: the image's digest in the registry, and its version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str
    version: ImageVersion


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What `fetch` and `push` are told by environment variables."""

    repository: str
    agent_image: str
    context_bytes: int
    context_sha256: str

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "BuildSettings":
        """Return what the variables say. Raises ValueError."""
        try:
            return cls(
                environment["CHOIR_BUILD_REPOSITORY"],
                environment["CHOIR_AGENT_IMAGE"],
                int(environment["CHOIR_CONTEXT_BYTES"]),
                environment["CHOIR_CONTEXT_SHA256"],
            )
        except KeyError as error:
            raise ValueError(f"{error} is not set") from error

    def variables(self) -> list[JsonValue]:
        """Return the variables, for a container."""
        values = {
            "CHOIR_BUILD_REPOSITORY": self.repository,
            "CHOIR_AGENT_IMAGE": self.agent_image,
            "CHOIR_CONTEXT_BYTES": str(self.context_bytes),
            "CHOIR_CONTEXT_SHA256": self.context_sha256,
        }
        return [{"name": name, "value": value} for name, value in values.items()]


def job_name(site: JobSite, agent_id: str) -> str:
    """Return the fixed name of an agent's build; the API server refuses a second one with it."""
    digest = hashlib.sha256(f"{site.claim}/{agent_id}".encode()).hexdigest()[:8]
    # a pod's name, which is also a label, has at most 63 characters with its suffix
    return f"build-{agent_id.replace('_', '-')[:40].rstrip('-')}-{digest}"


def job_labels(site: JobSite) -> dict[str, str]:
    """Return the labels of every build of this installation."""
    return {BUILD: "true", CLAIM: site.claim}


def job_manifest(site: JobSite, agent_id: str, context: bytes) -> JsonObject:
    """Return the manifest of an agent's build; it contains no secrets, only the name of one."""
    environment = BuildSettings(
        site.repository, site.agent_image, len(context), hashlib.sha256(context).hexdigest()
    ).variables()
    labels: JsonObject = {**job_labels(site), "app.kubernetes.io/name": "choir-build"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(site, agent_id),
            "labels": labels,
            "annotations": {AGENT: agent_id},
        },
        "spec": {
            # its input comes once, so a second pod would never get it: control begins again
            "backoffLimit": 0,
            "activeDeadlineSeconds": math.ceil(site.timeout_s),
            "ttlSecondsAfterFinished": KEPT_S,
            "template": {
                "metadata": {
                    "labels": labels,
                    # buildah mounts in its own namespaces, which the usual profile forbids
                    "annotations": {
                        f"container.apparmor.security.beta.kubernetes.io/{BUILD_STEP}": "unconfined"
                    },
                },
                "spec": _pod(site, environment),
            },
        },
    }


def _pod(site: JobSite, environment: list[JsonValue]) -> JsonObject:
    fetch = _container(site, FETCH, _held(), STEP_MEMORY, environment)
    push = _container(site, PUSH, _held(), STEP_MEMORY, environment)
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "terminationGracePeriodSeconds": END_S,
        "initContainers": [
            {**fetch, "stdin": True, "stdinOnce": True},
            _container(site, BUILD_STEP, _allowed_to_map(site), site.memory_bytes, []),
        ],
        "containers": [push],
        "volumes": [
            {"name": "work", "emptyDir": {"sizeLimit": str(site.disk_bytes)}},
            {"name": "notes", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "registry", "projected": {"defaultMode": 0o444, "sources": _registry(site)}},
        ],
    }


def _registry(site: JobSite) -> list[JsonValue]:
    """Return the parts of the Secret; a registry without a password has none, or needs no authority."""
    files = {".dockerconfigjson": "config.json", "ca.crt": "ca.crt"}
    return [
        {
            "secret": {
                "name": site.secret,
                "optional": True,
                "items": [{"key": key, "path": path}],
            }
        }
        for key, path in files.items()
    ]


def _container(
    site: JobSite,
    step: str,
    security: JsonObject,
    memory_bytes: int,
    environment: list[JsonValue],
) -> JsonObject:
    executes_foreign = step == BUILD_STEP
    mounts: list[JsonValue] = [
        {"name": "work", "mountPath": "/work"},
        {"name": "notes", "mountPath": "/notes", "readOnly": step != FETCH},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the pod
    ]
    if executes_foreign:
        mounts += [{"name": "tmp", "mountPath": path} for path in SCRATCH]
    else:
        mounts.append({"name": "registry", "mountPath": "/registry", "readOnly": True})
    return {
        "name": step,
        "image": site.builder_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/opt/control/bin/python", "-I", "-m", MODULE, step],
        "env": environment,
        "terminationMessagePolicy": "File",
        "resources": {
            "limits": {
                "memory": str(memory_bytes),
                "cpu": f"{math.ceil(site.cpus * 1000)}m",
                "ephemeral-storage": str(site.disk_bytes),
            },
            "requests": {"memory": str(min(memory_bytes, STEP_MEMORY // 2)), "cpu": "50m"},
        },
        "securityContext": security,
        "volumeMounts": mounts,
    }


def _held() -> JsonObject:
    """Return the posture of the steps that execute nothing foreign."""
    return {
        "runAsNonRoot": True,
        "runAsUser": UID,
        "runAsGroup": UID,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _allowed_to_map(site: JobSite) -> JsonObject:
    """Return the posture of `build`: root with what begins a user namespace, and nothing outside of it."""
    seccomp: JsonObject = {"type": "Unconfined"}
    if site.seccomp_profile:
        seccomp = {"type": "Localhost", "localhostProfile": site.seccomp_profile}
    return {
        "runAsUser": 0,
        "runAsGroup": 0,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        # buildah binds a RUN's directories over its own, which fails on a read-only one
        "readOnlyRootFilesystem": False,
        "capabilities": {"drop": ["ALL"], "add": list(MAPPING_CAPABILITIES)},
        "seccompProfile": seccomp,
    }
