"""Digests of images, from their registries (OCI Distribution Specification 1.1)."""

import hashlib
import re
from dataclasses import dataclass

import httpx2

HUB = "https://registry-1.docker.io"
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
"""The manifest of an image for several platforms comes first: its digest holds for all of them."""
TIMEOUT_S = 60
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class RegistryError(Exception):
    """A registry gave no digest; the text says why."""


@dataclass(frozen=True, slots=True)
class ImageLocation:
    """Registry, repository and tag of an image."""

    registry: str
    repository: str
    tag: str


def locate_image(image: str, mirror: str = "") -> ImageLocation:
    """Return where the image `NAME:TAG` is, by Docker's rules for short names.

    `mirror` is the address of a registry that serves the repositories of all others.
    """
    name, _, tag = image.rpartition(":")
    host, _, path = name.partition("/")
    if path and ("." in host or ":" in host or host == "localhost"):
        return ImageLocation(mirror or f"https://{host}", path, tag)
    return ImageLocation(mirror or HUB, name if path else f"library/{name}", tag)


def fetch_digest(client: httpx2.Client, image: ImageLocation) -> str:
    """Return the digest of an image's manifest, computed from its bytes; raises RegistryError."""
    url = f"{image.registry.rstrip('/')}/v2/{image.repository}/manifests/{image.tag}"
    try:
        answer = client.get(url, headers={"Accept": MANIFESTS})
        if answer.status_code == httpx2.codes.UNAUTHORIZED:
            token = _fetch_token(client, answer.headers.get("WWW-Authenticate", ""))
            headers = {"Accept": MANIFESTS, "Authorization": f"Bearer {token}"}
            answer = client.get(url, headers=headers)
        answer.raise_for_status()
    except (httpx2.HTTPError, httpx2.InvalidURL, KeyError, ValueError) as error:
        raise RegistryError(f"{url}: {error}") from error
    digest = "sha256:" + hashlib.sha256(answer.content).hexdigest()
    if answer.headers.get("Docker-Content-Digest", digest) != digest:
        raise RegistryError(f"{url}: the manifest does not have the digest that is stated")
    return digest


def _fetch_token(client: httpx2.Client, challenge: str) -> str:
    """Return an anonymous token for what a registry's challenge asks."""
    parameters = dict(_PARAMETER.findall(challenge))
    realm = parameters.pop("realm")
    answer = client.get(realm, params=parameters).raise_for_status().json()
    return str(answer.get("token") or answer["access_token"])
