"""Debian's docker-registry, as a registry of images on this machine."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.support.ports import free_port

REGISTRY = shutil.which("docker-registry")


@contextmanager
def running_registry(folder: Path) -> Iterator[str]:
    """Run Debian's docker-registry on this machine; yield its address."""
    assert REGISTRY is not None
    port = free_port()
    config = folder / "registry.yml"
    storage = {"filesystem": {"rootdirectory": str(folder / "images")}}
    config.write_text(
        json.dumps({"version": 0.1, "storage": storage, "http": {"addr": f"127.0.0.1:{port}"}})
    )
    with subprocess.Popen(
        [REGISTRY, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as registry:
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                try:
                    httpx2.get(f"{url}/v2/", trust_env=False).raise_for_status()
                    break
                except httpx2.HTTPError:
                    time.sleep(0.1)
            yield url
        finally:
            registry.kill()  # also after a failure: leaving the block waits for its end
