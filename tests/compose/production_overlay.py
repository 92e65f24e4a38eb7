"""The production overlay as a cluster of one node accepts it.

What one node of Kubernetes 1.20 does not have is replaced, and nothing else: the images' registry (tags of
this engine), the operator CloudNativePG (the trial's Postgres under its name), the storage class, the model's
provider, the newer versions of two APIs, and the reserved CPU time.
"""

from typing import Any

from tests.support.cluster import rendered

REGISTRY, VERSION = "registry.example", "0.1.0"
IMAGES = (
    "choir-control",
    "choir-memory",
    "choir-gateway",
    "choir-browser",
    "choir-egress",
    "choir-tools",
    "choir-agent",
)
OLDER = {"policy/v1": "policy/v1beta1", "autoscaling/v2": "autoscaling/v2beta2"}
"""The versions of an API server of 1.20, whose objects have the same fields as ours."""
OPERATOR = "postgresql.cnpg.io/v1"
SHARED = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "shared"},
    "provisioner": "kubernetes.io/host-path",
}

Manifest = dict[str, Any]


def on_this_cluster(overlay: str) -> list[Manifest]:
    """Return what kubectl renders, with older API versions and without the operator's object."""
    kept = [one for one in rendered(overlay) if one["apiVersion"] != OPERATOR]
    for one in kept:
        pod = one["spec"].get("template", {}).get("spec", {}) if "spec" in one else {}
        for container in [*pod.get("containers", []), *pod.get("initContainers", [])]:
            # two cores are too few to reserve what several nodes have, twice during an update
            container["resources"]["requests"]["cpu"] = "10m"
    return [{**one, "apiVersion": OLDER.get(one["apiVersion"], one["apiVersion"])} for one in kept]


def stand_ins() -> list[Manifest]:
    """Return the trial's Postgres under the operator's name, and the scripted model."""
    trial = [
        one for one in rendered("trial") if one["metadata"]["name"] in ("postgres", "rehearsal")
    ]
    for one in trial:
        if one["kind"] == "Service" and one["metadata"]["name"] == "postgres":
            one["metadata"]["name"] = "postgres-rw"
    return trial
