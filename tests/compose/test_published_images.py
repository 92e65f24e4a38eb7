"""Images of a real registry, pulled, switched to and back by a real engine: without Choir in them.

`test_compose_upgrade` runs the whole upgrade; here the images are small, so it takes seconds.
"""

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from choir_common.errors import ChoirError
from choir_local.home import Home
from choir_local.upgrade.compose_images import REVISION, ComposeImages, compose_images
from choir_local.upgrade.compose_project import ComposeProject
from choir_local.upgrade.programs import run_command
from choir_local.upgrade.record import UpgradeRecord, UpgradeVersions
from tests.compose.containers import ROOT, docker, engine_answers
from tests.support.docker_registry import REGISTRY, running_registry

SERVICES = ("control", "memory", "gateway", "egress", "tools", "agent")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        REGISTRY is None, reason="NO docker-registry (Debian: docker-registry) HERE"
    ),
]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Run a registry; yield its name, and remove what was pulled from it."""
    if reason := engine_answers():
        pytest.skip(f"no Docker engine: {reason}")
    with running_registry(tmp_path) as url:
        name = url.removeprefix("http://")
        yield name
        images = docker("image", "ls", "--format={{.Repository}}:{{.Tag}}").split()
        for image in (it for it in images if it.startswith(name)):
            docker("image", "rm", "--force", image)


def publish(prefix: str, version: str, commit: str) -> None:
    """Push a small image as each of Choir's, with the label of a commit, and remove them here."""
    for name in SERVICES:
        image = f"{prefix}{name}:{version}"
        words = ("docker", "build", "-q", "-t", image, f"--label={REVISION}={commit}", "-")
        text = f"FROM nats:2.12-alpine\nENV IMAGE={name}-{version}\n"
        subprocess.run(words, input=text, text=True, check=True, capture_output=True)
        docker("push", "--quiet", image)
        docker("image", "rm", image)


def images_of(home: Home, code: Path, source: str) -> tuple[ComposeImages, UpgradeRecord]:
    versions = UpgradeVersions(kind="compose", source=source, directory=str(code))
    record = UpgradeRecord(id="u1", made_at=datetime.now(UTC), code=versions, was_running=True)
    project = ComposeProject(code, home, run_command)
    return compose_images(project, home, record, run_command), record


async def test_a_version_is_pulled_switched_to_and_back(
    registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COMPOSE_FILE", "COMPOSE_PROFILES", "CHOIR_IMAGES", "CHOIR_VERSION"):
        monkeypatch.delenv(name, raising=False)
    code, home = tmp_path / "code", Home(tmp_path / "home")
    home.root.mkdir()

    def git(*words: str) -> str:
        names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        done = subprocess.run(["git", *names, *words], cwd=code, check=True, capture_output=True)
        return done.stdout.decode().strip()

    subprocess.run(["git", "clone", "-q", "--shared", ROOT, code], check=True)
    git("remote", "remove", "origin")
    old = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "next")
    new = git("rev-parse", "HEAD")
    git("reset", "-q", "--hard", old)
    prefix = f"{registry}/choir-"
    publish(prefix, "1.0.0", old)
    publish(prefix, "1.1.0", new)
    env = f"COMPOSE_FILE=docker-compose.yml:deploy/docker/published.yml\nCHOIR_IMAGES={prefix}\n"
    (code / ".env").write_text(f"{env}CHOIR_VERSION=1.0.0\n")
    (code / ".env").chmod(0o640)
    project = ComposeProject(code, home, run_command)
    config = await project.config()

    unknown, record = images_of(home, code, "image:9.9.9")
    with pytest.raises(ChoirError, match="9.9.9"):
        await unknown.prepare(record, config)
    images, record = images_of(home, code, "image:1.1.0")
    images.check(config)
    record = record.model_copy(update={"code": await images.prepare(record, config)})
    assert (record.code.old, record.code.new) == (old, new)
    assert {f"{prefix}{name}:1.1.0" for name in SERVICES} <= await project.images()
    assert (code / ".env").read_text() == f"{env}CHOIR_VERSION=1.0.0\n"

    for _again in range(2):
        await images.switch(record)
        assert git("rev-parse", "HEAD") == new
        assert (code / ".env").read_text() == f"{env}CHOIR_VERSION=1.1.0\n"
    services = (await project.config()).services
    assert services["control"].image == f"{prefix}control:1.1.0"
    assert services["control"].environment["CHOIR_AGENT_IMAGE"] == f"{prefix}agent:1.1.0"
    for _again in range(2):
        await images.switch_back(record)
        assert git("rev-parse", "HEAD") == old
        assert (code / ".env").read_text() == f"{env}CHOIR_VERSION=1.0.0\n"
        assert (code / ".env").stat().st_mode & 0o777 == 0o640
    await images.remove_rest()
    assert not list((home.root / "upgrade").iterdir())
