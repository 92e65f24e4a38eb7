"""Manifest of an agent's pod, from a fixed template. Pure.

The workspace and /choir are directories of the volume that also has control's state directory: control
reads and writes files of workspaces. Each pod mounts only its own directories.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_control.agents.runtimes.containers import (
    CONTAINER_CHOIR_DIR,
    CONTAINER_WORKSPACE,
    ContainerLimits,
    container_environment,
)
from choir_control.agents.runtimes.port import LaunchSpec

MANAGED = "choir.managed"
CLAIM = "choir.claim"
AGENT = "choir.agent"
"""Annotation with the agent's id, and label with its hash: an id may have characters that labels may not."""
SESSION = "choir.session"
EPOCH = "choir.epoch"
LEADER = "choir.leader"
"""Label of the leading control process's pod, which the Service `control` selects; its value is the claim."""

CONTAINER_NAME = "agent"
NODE_LOST_AFTER_S = 30
"""Seconds after which a pod is deleted from a node that does not answer; the default is five minutes."""
DRAIN_S = 45
"""Seconds that an agent has when its node is drained: an open turn and the summary."""
REQUESTED_MEMORY = 96 << 20
REQUESTED_MILLICPUS = 50
"""What the scheduler reserves for an agent: about what one needs that waits for messages."""


@dataclass(frozen=True, slots=True)
class PodSite:
    """Settings shared by the pods of one installation."""

    home: Path
    """The state directory, as control's pod sees it."""
    claim: str
    """PersistentVolumeClaim of the state directory; distinguishes installations in one namespace."""
    image: str
    uid: int
    gid: int
    """Control's own user, to which the files in the volume belong."""
    log_level: str
    limits: ContainerLimits
    otlp_endpoint: str = ""
    claim_path: str = ""
    """Path of the state directory in the volume; empty for its root."""


def pod_name(site: PodSite, agent_id: str, session_id: str = "", epoch: int = 0) -> str:
    """Return the name of the pod of one start.

    Each start has its own, so that it need not wait until the node has cleared up the pod before it.
    """
    start = hashlib.sha256(f"{session_id}/{epoch}".encode()).hexdigest()[:5]
    return f"choir-{agent_id.replace('_', '-').rstrip('-')}-{agent_hash(site, agent_id)}-{start}"


def agent_hash(site: PodSite, agent_id: str) -> str:
    """Return what keeps agents apart in names and labels; an id may have characters that these may not."""
    return hashlib.sha256(f"{site.claim}/{agent_id}".encode()).hexdigest()[:8]


def agent_labels(site: PodSite, agent_id: str) -> dict[str, str]:
    """Return the labels of every pod of one agent."""
    return {**installation_labels(site), AGENT: agent_hash(site, agent_id)}


def installation_labels(site: PodSite) -> dict[str, str]:
    """Return the labels of every agent pod of this installation."""
    return {MANAGED: "true", CLAIM: site.claim}


def pod_manifest(
    site: PodSite, spec: LaunchSpec, names: Mapping[str, str] | None = None
) -> JsonObject:
    """Return the manifest of an agent's pod; it contains no secrets.

    With `names`, host names with their IP addresses, the pod knows these and has no name server, which
    could be sent data by names. Raises Unavailable when a directory of the agent is not in the volume.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(site, spec),
        "spec": {
            # control starts an agent again, with a new epoch
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostNetwork": False,
            "hostPID": False,
            "hostIPC": False,
            **_name_resolution(names),
            # the pause container reaps what tools leave behind, as the engine's init does
            "shareProcessNamespace": True,
            "terminationGracePeriodSeconds": DRAIN_S,
            "tolerations": [_tolerate("not-ready"), _tolerate("unreachable")],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": site.uid,
                "runAsGroup": site.gid,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(site, spec)],
            "volumes": [
                {"name": "home", "persistentVolumeClaim": {"claimName": site.claim}},
                {
                    "name": "tmp",
                    "emptyDir": {"medium": "Memory", "sizeLimit": str(site.limits.tmp_bytes)},
                },
            ],
        },
    }


def _metadata(site: PodSite, spec: LaunchSpec) -> JsonObject:
    return {
        "name": pod_name(site, spec.agent_id, spec.session_id, spec.epoch),
        "labels": {**agent_labels(site, spec.agent_id), "app.kubernetes.io/name": "choir-agent"},
        "annotations": {
            AGENT: spec.agent_id,
            SESSION: spec.session_id,
            EPOCH: str(spec.epoch),
        },
    }


def _name_resolution(names: Mapping[str, str] | None) -> JsonObject:
    if names is None:
        return {}
    return {
        "hostAliases": [{"ip": ip, "hostnames": [name]} for name, ip in names.items()],
        "dnsPolicy": "None",
        # the API requires one; nothing listens there
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
    }


def _container(site: PodSite, spec: LaunchSpec) -> JsonObject:
    limits, millicpus = site.limits, math.ceil(site.limits.cpus * 1000)
    environment = container_environment(site.log_level, site.otlp_endpoint)
    return {
        "name": CONTAINER_NAME,
        "image": spec.docker_image or site.image,
        "imagePullPolicy": "IfNotPresent",
        "workingDir": CONTAINER_WORKSPACE,
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        # The boot line is written once; when control closes the stream, the agent reads end of file.
        "stdin": True,
        "stdinOnce": True,
        "tty": False,
        "terminationMessagePolicy": "File",
        "resources": {
            "limits": {"memory": str(limits.memory_bytes), "cpu": f"{millicpus}m"},
            "requests": {
                "memory": str(min(REQUESTED_MEMORY, limits.memory_bytes)),
                "cpu": f"{min(REQUESTED_MILLICPUS, millicpus)}m",
            },
        },
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {
                "name": "home",
                "mountPath": CONTAINER_WORKSPACE,
                "subPath": _path_in_volume(site, spec.workspace, "workspace"),
            },
            # an image from a registry has its own /choir
            *([] if spec.docker_image else [_choir_mount(site, spec)]),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the container
        ],
    }


def _choir_mount(site: PodSite, spec: LaunchSpec) -> JsonObject:
    return {
        "name": "home",
        "mountPath": CONTAINER_CHOIR_DIR,
        "subPath": _path_in_volume(site, spec.choir_dir, "identity directory"),
        "readOnly": True,
    }


def _tolerate(condition: str) -> JsonObject:
    return {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": NODE_LOST_AFTER_S,
    }


def _path_in_volume(site: PodSite, path: Path, what: str) -> str:
    """Return a directory's path in the volume. Raises Unavailable."""
    if path == site.home or not path.is_relative_to(site.home):
        raise Unavailable(
            _(
                "The {what} {path} is not below {home}, the volume that agents' pods mount. Use a "
                "directory below it, such as {home}/workspaces/NAME."
            ).format(what=what, path=path, home=site.home)
        )
    return str(Path(site.claim_path) / path.relative_to(site.home))
