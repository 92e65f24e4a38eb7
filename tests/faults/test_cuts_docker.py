"""Row R12 for the docker runtime: a build that is killed anywhere leaves the old image or the new one."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from choir_control.images.docker_builder import DockerImageBuilder
from choir_control.images.image_store import ImageStore
from tests.service.images.forge import Forge, Told
from tests.service.runtimes.containers import PYTHON_IMAGE, connect
from tests.support.crash_injection import crash_at_each_line

EVERY = os.environ.get("CHOIR_TEST_EVERY_CUT") == "1"


@pytest.fixture
def client() -> Iterator[Any]:
    client = connect()
    yield client
    client.close()


@pytest.fixture
def home(tmp_path: Path, client: Any) -> Iterator[Path]:
    yield tmp_path / "home"
    label = f"choir.built_for={tmp_path / 'home'}"
    for image in client.images.list(all=True, filters={"label": label}):
        with contextlib.suppress(Exception):
            client.images.remove(image.id, force=True)


@pytest.mark.nightly
def test_a_docker_build_that_is_cut_leaves_the_old_image_or_the_new_one(
    tmp_path: Path, home: Path, client: Any
) -> None:
    forge = Forge(tmp_path, DockerImageBuilder(home, PYTHON_IMAGE))
    asyncio.run(forge.images.build("main", Told()))
    old = ImageStore(home).get_current("main")
    assert old is not None
    forge.fill_own("another soul")
    went_through = []

    def build() -> None:
        # a client of its own: two processes on one connection would answer each other
        forge.use(DockerImageBuilder(home, PYTHON_IMAGE))
        asyncio.run(forge.images.build("main", Told()))

    for number in crash_at_each_line(build, "/images/docker_builder.py", every=1 if EVERY else 60):
        now = ImageStore(home).get_current("main")
        assert now is not None
        went_through.append(now != old)
        assert asyncio.run(DockerImageBuilder(home, PYTHON_IMAGE).find_drift(now)) is None, number
        if now != old:
            assert now.version.agent_repo_commit == forge.own.git("rev-parse", "main")
            ImageStore(home).set_current(old)
    assert went_through[-1] and not went_through[0]
    print(f"docker build: {len(went_through)} cuts")
