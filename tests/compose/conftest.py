"""The fixture `production`: the production overlay on a real cluster of one node."""

from collections.abc import Iterator

import pytest

from tests.compose.production_overlay import (
    IMAGES,
    REGISTRY,
    SHARED,
    VERSION,
    on_this_cluster,
    stand_ins,
)
from tests.service.runtimes.containers import connect
from tests.support.cluster import (
    NAMESPACE,
    apply,
    build_images,
    kubectl,
    need_cluster,
    remove_namespace,
    volume_of,
    wait_until_available,
)


@pytest.fixture(scope="module")
def registry() -> Iterator[None]:
    """Give the images of this engine the names of a registry."""
    need_cluster()
    build_images()
    client = connect()
    for name in IMAGES:
        client.images.get(f"{name}:local").tag(f"{REGISTRY}/{name}", VERSION)
    yield
    for name in IMAGES:
        client.images.remove(f"{REGISTRY}/{name}:{VERSION}")
    client.close()


@pytest.fixture(scope="module")
def production(registry: None) -> Iterator[None]:
    """Apply the overlay and wait until every part is there."""
    apply(SHARED)
    try:
        apply(*on_this_cluster("production"), *stand_ins())
        for claim in ("choir-home", "choir-gateway", "data-postgres-0"):
            # this provisioner makes directories of root; those of disks give them to the pod's group
            volume_of(NAMESPACE, claim).chmod(0o777)
        kubectl("-n", NAMESPACE, "rollout", "status", "statefulset/nats", "--timeout=600s")
        wait_until_available()
        yield
    finally:
        remove_namespace()
        kubectl("delete", "storageclass", "shared", "--ignore-not-found")
