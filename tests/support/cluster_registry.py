"""Debian's image registry, for a cluster whose node is this machine's Docker engine."""

import base64
import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.service.runtimes.containers import connect
from tests.support.cluster import ROOT
from tests.support.ports import free_port

SECRET = "choir-registry"
HTPASSWD = "choir:$2y$05$abcdefghijklmnopqrstuuqwWMzKt5N8p.u2GX5MuH1t19BMWuLOW\n"
PASSWORD = "p"
BUILDER = "choir-builder:local"
CONFIG = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {top}/data}}}}
http: {{addr: "{address}", tls: {{certificate: {top}/tls.crt, key: {top}/tls.key}}}}
auth: {{htpasswd: {{realm: choir, path: {top}/htpasswd}}}}
"""


@dataclass
class Registry:
    """Debian's registry over TLS with a password, and where it is."""

    address: str
    top: Path

    @property
    def login(self) -> dict[str, str]:
        """Return the credential for a Docker engine."""
        return {"username": "choir", "password": PASSWORD}

    def secret(self, namespace: str) -> dict[str, Any]:
        """Return the Secret with its credential and certificate."""
        auth = base64.b64encode(f"choir:{PASSWORD}".encode()).decode()
        config = json.dumps({"auths": {self.address: {"auth": auth}}})
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": namespace},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {
                ".dockerconfigjson": config,
                "ca.crt": (self.top / "tls.crt").read_text(),
            },
        }


@contextlib.contextmanager
def running_registry(top: Path) -> Iterator[Registry]:
    """Run a registry that pods and the node reach at the bridge's address; its files are in `top`."""
    client = connect()
    bridge = client.networks.get("bridge").attrs["IPAM"]["Config"][0]
    host = bridge.get("Gateway") or bridge["Subnet"].rpartition(".")[0] + ".1"
    address = f"{host}:{free_port()}"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=registry", "-addext", f"subjectAltName=IP:{host}"),
            *("-keyout", top / "tls.key", "-out", top / "tls.crt"),
        ],
        check=True,
        capture_output=True,
    )
    (top / "htpasswd").write_text(HTPASSWD)
    (top / "config.yml").write_text(CONFIG.format(top=top, address=address))
    trusted = Path("/etc/docker/certs.d") / address
    trusted.mkdir(parents=True)
    (trusted / "ca.crt").write_bytes((top / "tls.crt").read_bytes())
    with subprocess.Popen(
        ["docker-registry", "serve", top / "config.yml"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield Registry(address, top)
        finally:
            process.terminate()
            (trusted / "ca.crt").unlink()
            trusted.rmdir()
            client.close()


def build_builder() -> None:
    """Build the image of the Jobs that build images."""
    command = ("docker", "build", "--quiet", "--file", "deploy/docker/Dockerfile")
    subprocess.run(
        [*command, "--target", "builder", "--tag", BUILDER, "."],
        cwd=ROOT,
        check=True,
        timeout=3_600,
    )
