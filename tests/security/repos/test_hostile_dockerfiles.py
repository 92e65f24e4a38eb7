"""Dockerfiles made to reach us: a build sees no socket, no secret, no file of ours, and comes to an end."""

import asyncio
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from choir_common.errors import InvalidRequest
from choir_control.images.docker_builder import BuildLimits, DockerImageBuilder
from tests.service.control.world import until
from tests.service.images.forge import Forge, Told
from tests.service.runtimes.containers import PYTHON_IMAGE, connect

CANARY = "canary-of-the-builder-Zq81"
LIMITS = BuildLimits(memory_bytes=256 << 20, timeout_s=180)
LOOK = """
RUN (env; cat /proc/1/environ; cat /proc/mounts; ls -la /var/run /run /; \\
     find / -name '*.sock' -o -name 'secrets*.json' -o -name 'config.json'; \\
     cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes) > /seen 2>/dev/null; true
"""


@pytest.fixture
def client() -> Iterator[Any]:
    client = connect()
    yield client
    client.close()


@pytest.fixture
def forge(tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    """An installation with secrets on disk and in control's own environment."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    forge = Forge(tmp_path, DockerImageBuilder(tmp_path / "home", PYTHON_IMAGE, LIMITS))
    forge.home.mkdir(exist_ok=True)
    (forge.home / "secrets.json").write_text(json.dumps({"key": CANARY}))
    (forge.home / "config.json").write_text("{}")
    yield forge
    label = f"choir.built_for={forge.home}"
    for image in client.images.list(all=True, filters={"label": label}):
        with contextlib.suppress(Exception):
            client.images.remove(image.id, force=True)


async def test_a_build_sees_no_secret_no_socket_and_no_file_of_ours(
    forge: Forge, client: Any
) -> None:
    forge.shared.commit({"Dockerfile.base": f"ARG CHOIR_AGENT\nFROM $CHOIR_AGENT\n{LOOK}"})
    forge.fill_own(Dockerfile=f"FROM choir-base\n{LOOK.replace('/seen', '/seen-too')}")
    built = await forge.images.build("main", Told())
    read = ["cat", "/seen", "/seen-too"]
    seen = client.containers.run(built.image.place, read, remove=True).decode()
    assert "PATH=" in seen and "overlay" in seen  # it did look
    assert "docker.sock" not in seen and "choird.sock" not in seen
    assert "secrets.json" not in seen and str(forge.home) not in seen
    assert str(LIMITS.memory_bytes) in seen
    described = json.dumps(
        [client.api.history(built.image.place), client.api.inspect_image(built.image.place)]
    )
    for text in (seen, described):
        assert CANARY not in text
    # of build arguments there is the name of the base, which is no secret
    assert "CHOIR_AGENT" not in json.dumps(client.api.inspect_image(built.image.place)["Config"])


@pytest.mark.parametrize("silent", [True, False])
async def test_a_build_that_never_ends_is_ended(forge: Forge, client: Any, silent: bool) -> None:
    words = "sleep 600" if silent else "while :; do echo more; sleep 0.1; done"
    forge.fill_own(Dockerfile=f"FROM choir-base\nRUN : {forge.home}; {words}\n")
    hasty = DockerImageBuilder(forge.home, PYTHON_IMAGE, BuildLimits(timeout_s=5))
    forge.images._builder = hasty
    with pytest.raises(InvalidRequest, match="timeout"):
        await forge.images.build("main", Told())

    async def ended() -> bool:
        listed = await asyncio.to_thread(client.containers.list, ignore_removed=True)
        return not [one for one in listed if str(forge.home) in json.dumps(one.attrs["Config"])]

    await until(ended, 90)
    assert forge.shelf.get_current("main") is None


async def test_a_build_that_wants_all_memory_fails_alone(forge: Forge) -> None:
    hoard = 'python3 -c "x = bytearray(1 << 30); print(len(x))"'
    forge.fill_own(Dockerfile=f"FROM choir-base\nRUN {hoard}\n")
    with pytest.raises(InvalidRequest, match="returned a non-zero code: 137"):
        await forge.images.build("main", Told())


TRICKS = {
    "the engine would fetch it": "ADD http://127.0.0.1:9400/v1/openapi.json /x",
    "as an argument": "ARG FROM_WHERE=http://169.254.169.254/\nADD $FROM_WHERE /x",
    "for the next build": "ONBUILD ADD http://127.0.0.1/ /x",
    "over lines": "aDd \\\n # a comment\n http://127.0.0.1/ \\\n /x",
    "in what BuildKit would take for text": "RUN true <<CMD\nADD http://127.0.0.1/ /x\nCMD\n",
    "with another escape": "RUN echo \\\nADD http://127.0.0.1/ /x",
    "a volume": "VOLUME /usr/lib",
    "a volume for the next": "onbuild volume /usr/lib",
}


@pytest.mark.parametrize("trick", TRICKS)
async def test_what_would_reach_further_than_a_build_is_refused_before_it(
    tmp_path: Path, trick: str
) -> None:
    head = "# escape=`\n" if "escape" in trick else ""
    text = f"{head}FROM choir-base\n{TRICKS[trick]}\n"
    forge = Forge(tmp_path)
    forge.fill_own(Dockerfile=text)
    with pytest.raises(InvalidRequest, match="line [0-9]: (ADD|VOLUME|heredocs)"):
        await forge.images.build("main", Told())


async def test_add_as_a_word_of_a_command_is_nobodys_concern(tmp_path: Path) -> None:
    forge = Forge(tmp_path)
    forge.fill_own(Dockerfile="FROM choir-base\nRUN apk \\\n  add \\\n  volume-tools\n")
    assert (await forge.images.build("main", Told())).is_new


async def test_a_volume_would_be_writable_and_is_refused(forge: Forge, client: Any) -> None:
    """As a base has it that somebody else made."""
    with_volume = f"FROM {PYTHON_IMAGE}\nVOLUME /usr/lib\nLABEL choir.built_for={forge.home}\n"
    base, _ = client.images.build(fileobj=io.BytesIO(with_volume.encode()), rm=True)
    forge.images._builder = DockerImageBuilder(forge.home, base.id, LIMITS)
    with pytest.raises(InvalidRequest, match="VOLUME /usr/lib"):
        await forge.images.build("main", Told())
    assert forge.shelf.get_current("main") is None
