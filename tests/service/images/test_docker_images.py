"""Docker images of agents, built by a real engine: layers cached by commit, whole or not at all."""

import contextlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from choir_common.choir_dir import SKILLS, TOOLS, hash_directory, read_version
from choir_common.errors import BadInput, Conflict
from choir_control.images.docker import DockerImages
from choir_control.images.dockerfiles import pin_base, stands_on_base
from choir_control.sessions.outfit import Outfitter
from tests.service.images.forge import ECHO, Forge, Told, a_manifest
from tests.service.runtimes.containers import PYTHON_IMAGE, connect

COMPILES = """
FROM choir-base
RUN mkdir -p /built && sh /choir/tools/agent/c/make.sh
"""


@pytest.fixture
def client() -> Iterator[Any]:
    client = connect()
    yield client
    client.close()


@pytest.fixture
def forge(tmp_path: Path, client: Any) -> Iterator[Forge]:
    forge = Forge(tmp_path, DockerImages(tmp_path / "home", PYTHON_IMAGE))
    yield forge
    label = f"choir.built_for={forge.home}"
    for image in client.images.list(all=True, filters={"label": label}):
        with contextlib.suppress(Exception):
            client.images.remove(image.id, force=True)


def inside(client: Any, image: str, into: Path) -> Path:
    """Copy an image's /choir out of it."""
    container = client.containers.create(image, ["true"])
    try:
        stream, _ = container.get_archive("/choir")
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            archive.extractall(into, filter="tar")
    finally:
        container.remove(force=True)
    return into / "choir"


async def test_an_image_holds_the_merged_choir_and_what_was_compiled(
    forge: Forge, client: Any, tmp_path: Path
) -> None:
    forge.fill_own(
        Dockerfile=COMPILES,
        **{
            "tools/c.json": a_manifest("my.c", exec_path="c/c"),
            "tools/c/make.sh": f"cat > /choir/tools/agent/c/c <<'E'\n{ECHO % 'made'}E\n"
            "chmod +x /choir/tools/agent/c/c\n",
        },
    )
    told = Told()
    built = await forge.images.build("main", told)
    top = inside(client, built.image.place, tmp_path / "out")
    assert (top / "SOUL.md").read_text() == "my soul"
    assert (top / "USER.md").read_text() == "the user"
    assert (top / "tools/agent/c/c").read_text() == ECHO % "made"
    assert read_version(top) == built.image.version
    # what the agent will say of itself at its greeting
    assert hash_directory(top / TOOLS) == built.image.version.tool_manifest_hash
    assert hash_directory(top / SKILLS) == built.image.version.skill_manifest_hash
    image = client.images.get(f"choir-agent-main:{built.image.version.image_version}")
    assert image.id == built.image.place
    assert image.labels["choir.agent_commit"] == forge.own.git("rev-parse", "main")
    assert any("Step" in line for line in told.lines)
    assert not (await forge.images.build("main", Told())).fresh


async def test_the_base_is_built_once_for_a_commit(forge: Forge, client: Any) -> None:
    base = f"ARG CHOIR_AGENT\nFROM $CHOIR_AGENT\nRUN echo base > /base\nLABEL of={forge.home}\n"
    forge.shared.commit({"Dockerfile.base": base, "identity/USER.md": "u"})
    first, second = Told(), Told()
    await forge.images.build("main", first)
    forge.fill_own("another soul")
    built = await forge.images.build("main", second)
    assert any("RUN echo base" in line for line in first.lines)
    assert any("is there already" in line for line in second.lines)
    assert not any("RUN echo base" in line for line in second.lines)
    assert client.containers.run(built.image.place, ["cat", "/base"], remove=True) == b"base\n"


async def test_a_build_that_fails_says_why_and_leaves_the_old_image(forge: Forge) -> None:
    first = await forge.images.build("main", Told())
    forge.fill_own(Dockerfile="FROM choir-base\nRUN echo no luck && false\n")
    with pytest.raises(BadInput, match="cannot be built"):
        await forge.images.build("main", Told())
    forge.fill_own(Dockerfile=f"FROM {PYTHON_IMAGE}\n")
    with pytest.raises(BadInput, match="FROM choir-base"):
        await forge.images.build("main", Told())
    assert forge.shelf.current("main") == first.image


async def test_an_image_that_was_removed_is_refused_and_built_again(
    forge: Forge, client: Any
) -> None:
    built = await forge.images.build("main", Told())
    client.images.remove(built.image.place, force=True)
    outfitter = Outfitter(forge.home, forge.configuration, forge.shelf, forge.builder)  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="removed"):
        await outfitter.dress("main")
    again = await forge.images.build("main", Told())
    assert again.fresh and again.image.version == built.image.version
    outfit = await outfitter.dress("main")
    assert outfit.docker_image == again.image.place


def test_the_base_of_a_dockerfile_is_pinned_wherever_it_is_named() -> None:
    text = "FROM choir-base:1.2 AS x\nFROM other\nfrom --platform=linux/amd64 choir-base\n# choir-base\n"
    assert pin_base(text, "b:1") == (
        "FROM b:1 AS x\nFROM other\nfrom --platform=linux/amd64 b:1\n# choir-base\n"
    )
    assert stands_on_base(text) and not stands_on_base("FROM choir-based\n")
