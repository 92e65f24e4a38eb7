"""S33: digests of images, from a strict fake of a registry with tokens, and from Debian's registry."""

import hashlib
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from scripts.pins import (
    IMAGE_LOCK,
    PINNED_FILES,
    read_image_lock,
    refresh_images,
    third_party_images,
)
from scripts.registry import RegistryError, fetch_digest, locate_image
from scripts.release import build_release
from tests.support.docker_registry import REGISTRY, running_registry
from tests.support.ports import free_port
from tests.unit.test_release import UV, commit

ROOT = Path(__file__).parents[2]
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode()
DIGEST = "sha256:" + hashlib.sha256(MANIFEST).hexdigest()
TOKEN = "anonymous-token-for-pulls"


class FakeHub(BaseHTTPRequestHandler):
    """Docker Hub's way to a manifest: a challenge, an anonymous token for the scope, the manifest."""

    stated = DIGEST

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        base = f"http://127.0.0.1:{self.server.server_address[1]}"
        if url.path == "/token":
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            wanted = {"service": "registry.fake", "scope": "repository:library/nats:pull"}
            return self._answer(200, {"token": TOKEN}) if query == wanted else self._answer(400, {})
        match = re.fullmatch(r"/v2/((?:[a-z0-9._-]+/)*[a-z0-9._-]+)/manifests/([\w.-]+)", url.path)
        if match is None:
            return self._answer(404, {"errors": [{"code": "NAME_INVALID"}]})
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            scope = f'service="registry.fake",scope="repository:{match[1]}:pull"'
            challenge = f'Bearer realm="{base}/token",{scope}'
            return self._answer(401, {"errors": [{"code": "UNAUTHORIZED"}]}, challenge=challenge)
        if INDEX not in self.headers["Accept"] or match[2] != "2.12":
            return self._answer(404, {"errors": [{"code": "MANIFEST_UNKNOWN"}]})
        return self._answer(200, MANIFEST, digest=self.stated)

    def _answer(
        self, status: int, body: dict[str, object] | bytes, challenge: str = "", digest: str = ""
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        fields = {"WWW-Authenticate": challenge, "Docker-Content-Digest": digest}
        for name, value in {**fields, "Content-Length": str(len(content))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Write nothing."""


@pytest.fixture
def hub() -> Iterator[str]:
    """Serve the fake; yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeHub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def digest_at(hub: str, image: str) -> str:
    with httpx2.Client(trust_env=False) as client:
        return fetch_digest(client, locate_image(image, hub))


def test_a_digest_is_fetched_with_an_anonymous_token(hub: str) -> None:
    assert digest_at(hub, "nats:2.12") == DIGEST


@pytest.mark.parametrize(
    ("image", "reason"), [("nats:2.13", "404"), ("other/nats:2.12", "400"), ("Nats:2.12", "404")]
)
def test_a_registry_without_the_image_gives_a_reason(hub: str, image: str, reason: str) -> None:
    with pytest.raises(RegistryError, match=reason):
        digest_at(hub, image)


def test_a_manifest_with_another_digest_than_stated_is_refused(
    hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeHub, "stated", "sha256:" + "0" * 64)
    with pytest.raises(RegistryError, match="does not have the digest"):
        digest_at(hub, "nats:2.12")


@pytest.mark.parametrize(
    ("image", "registry", "repository"),
    [
        ("nats:2.12", "https://registry-1.docker.io", "library/nats"),
        ("grafana/grafana:12", "https://registry-1.docker.io", "grafana/grafana"),
        ("ghcr.io/a/b:1", "https://ghcr.io", "a/b"),
        ("localhost/a:1", "https://localhost", "a"),
    ],
)
def test_short_names_are_images_of_docker_hub(image: str, registry: str, repository: str) -> None:
    place = locate_image(image)
    assert (place.registry, place.repository) == (registry, repository)


def all_images() -> set[str]:
    return set[str]().union(
        *(third_party_images((ROOT / path).read_text()) for path in PINNED_FILES)
    )


def push_image(client: httpx2.Client, url: str, image: str) -> str:
    """Push an index that differs for each image; return its digest."""
    place = locate_image(image, url)
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [], "annotations": {"of": image}}
    put = client.put(
        f"{url}/v2/{place.repository}/manifests/{place.tag}",
        content=json.dumps(index),
        headers={"Content-Type": INDEX},
    )
    return str(put.raise_for_status().headers["Docker-Content-Digest"])


@pytest.mark.skipif(REGISTRY is None, reason="NO docker-registry (Debian: docker-registry) HERE")
def test_digests_of_a_registry_are_in_the_lock_file_and_in_every_file_of_a_release(
    tmp_path: Path,
) -> None:
    checkout = tmp_path / "checkout"
    for path in (*PINNED_FILES, IMAGE_LOCK):
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, checkout / path)
    project = '[project]\nname = "choir"\nversion = "1"\nrequires-python = ">=3.11"\n'
    (checkout / "pyproject.toml").write_text(project)
    subprocess.run([UV, "lock", "--quiet", "--offline"], cwd=checkout, check=True)
    with running_registry(tmp_path) as url, httpx2.Client(trust_env=False) as client:
        missing, *others = sorted(all_images())
        digests = {image: push_image(client, url, image) for image in others}
        (failure,) = refresh_images(checkout, url)
        assert failure.startswith(f"{missing}: ") and "404" in failure
        digests[missing] = push_image(client, url, missing)
        assert refresh_images(checkout, url) == []
    assert read_image_lock((checkout / IMAGE_LOCK).read_text()) == digests
    commit(checkout)
    archive = build_release(checkout, version="1.2.3", out=tmp_path / "out", uv=UV)[0]
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path / "unpacked"], check=True)
    release = tmp_path / "unpacked" / "choir-1.2.3"
    for path in PINNED_FILES:
        named = re.findall(
            r"(?:image(?:Name)?: |FROM )(\S+@sha256:\S+)", (release / path).read_text()
        )
        assert set(named) == {
            f"{image}@{digests[image]}" for image in third_party_images((ROOT / path).read_text())
        }


def test_registries_that_do_not_answer_leave_the_lock_file_as_it_is(tmp_path: Path) -> None:
    for path in (*PINNED_FILES, IMAGE_LOCK):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    lock = tmp_path / IMAGE_LOCK
    lock.write_text(re.sub(r"(?m)^(nats\S+) .*", rf"\1 {DIGEST}", lock.read_text()))
    before = lock.read_text()
    failures = refresh_images(tmp_path, f"http://127.0.0.1:{free_port()}")
    assert len(failures) == len(all_images())
    assert lock.read_text() == before
