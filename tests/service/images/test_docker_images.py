"""Docker images of agents, built by a real engine: layers cached by commit, whole or not at all."""

import contextlib
import io
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from choir_common.errors import Conflict, InvalidRequest
from choir_common.identity_dir import SKILLS_DIR, TOOLS_DIR, hash_directory, read_version
from choir_control.agents.sessions.launch import LaunchImageResolver
from choir_control.images.build_context import pin_base_image, uses_base_image
from choir_control.images.build_service import ImageBuildService
from choir_control.images.docker_builder import DockerImageBuilder
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
    forge = Forge(tmp_path, DockerImageBuilder(tmp_path / "home", PYTHON_IMAGE))
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
        into.mkdir()
        subprocess.run(["tar", "-x", "-C", into], input=b"".join(stream), check=True)
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
    assert hash_directory(top / TOOLS_DIR) == built.image.version.tool_manifest_hash
    assert hash_directory(top / SKILLS_DIR) == built.image.version.skill_manifest_hash
    image = client.images.get(f"choir-agent-main:{built.image.version.image_version}")
    assert image.id == built.image.place
    assert image.labels["choir.agent_commit"] == forge.own.git("rev-parse", "main")
    assert any("Step" in line for line in told.lines)
    assert not (await forge.images.build("main", Told())).is_new


def bases(forge: Forge, client: Any) -> set[str]:
    """Return the base images of this home."""
    label = f"choir.built_for={forge.home}"
    found = client.images.list(filters={"label": label, "reference": "choir-base"})
    return {tag for image in found for tag in image.tags}


def commit_base(forge: Forge, words: str) -> None:
    text = f"ARG CHOIR_AGENT\nFROM $CHOIR_AGENT\nRUN echo {words} > /base\nLABEL of={forge.home}\n"
    forge.shared.commit({"Dockerfile.base": text, "identity/USER.md": "u"})


async def test_the_base_is_built_only_when_the_global_repository_has_moved(
    forge: Forge, client: Any
) -> None:
    async def ran(words: str) -> bool:
        told = Told()
        await forge.images.build("main", told)
        there = any("already exists" in line for line in told.lines)
        assert there != any(f"RUN echo {words}" in line for line in told.lines)
        return not there

    commit_base(forge, "first")
    assert await ran("first")
    old = bases(forge, client)
    forge.fill_own("another soul")
    assert not await ran("first")
    commit_base(forge, "second")
    assert await ran("second")
    assert len(bases(forge, client)) == 2  # the image before stands on the old one
    forge.fill_own("a third soul")
    assert not await ran("second")
    assert bases(forge, client).isdisjoint(old)
    current = forge.shelf.get_current("main")
    assert current is not None
    assert client.containers.run(current.place, ["cat", "/base"], remove=True) == b"second\n"


@pytest.mark.nightly  # test_prune.py has what stays
async def test_old_images_are_removed_but_not_the_one_before_nor_one_in_use(
    forge: Forge, client: Any
) -> None:
    def tags() -> set[str]:
        found = client.images.list("choir-agent-main", filters={"label": label})
        return {tag.rpartition(":")[2] for image in found for tag in image.tags}

    label = f"choir.built_for={forge.home}"
    built = []
    for soul in ("one", "two", "three"):
        forge.fill_own(soul)
        built.append((await forge.images.build("main", Told())).image)
        if soul == "one":
            # a container of it that control knows nothing of
            used = client.containers.create(built[0].place, ["true"])
    one, two, three = [image.version.image_version for image in built]
    try:
        assert tags() == {one, two, three}
    finally:
        used.remove(force=True)
    told = Told()
    forge.fill_own("four")
    four = (await forge.images.build("main", told)).image.version.image_version
    assert tags() == {three, four}
    assert {f"removed the old image choir-agent-main:{old}" for old in (one, two)} <= set(
        told.lines
    )


@pytest.mark.nightly  # test_build.py builds again what differs
async def test_an_image_with_another_releases_agent_is_built_again(
    forge: Forge, client: Any
) -> None:
    first = (await forge.images.build("main", Told())).image
    # labelled for the fixture that clears up
    text = f"FROM {PYTHON_IMAGE}\nLABEL choir.built_for={forge.home}\n".encode()
    newer, _ = client.images.build(fileobj=io.BytesIO(text), rm=True)
    upgraded = DockerImageBuilder(forge.home, newer.id)
    again = ImageBuildService(
        home=forge.home,
        configuration=forge.configuration,  # type: ignore[arg-type]
        mirrors=forge.mirrors,
        builder=upgraded,
        image_store=forge.shelf,
        tools=forge.tools,
    )
    built = await again.build("main", Told())
    # its version differs, so that an update redeploys it
    assert built.is_new and built.image.version != first.version
    assert not (await again.build("main", Told())).is_new


async def test_a_build_that_fails_says_why_and_leaves_the_old_image(forge: Forge) -> None:
    first = await forge.images.build("main", Told())
    forge.fill_own(Dockerfile="FROM choir-base\nRUN echo no luck && false\n")
    with pytest.raises(InvalidRequest, match="cannot be built"):
        await forge.images.build("main", Told())
    forge.fill_own(Dockerfile=f"FROM {PYTHON_IMAGE}\n")
    with pytest.raises(InvalidRequest, match="FROM choir-base"):
        await forge.images.build("main", Told())
    assert forge.shelf.get_current("main") == first.image


@pytest.mark.nightly  # test_build.py refuses and builds again
async def test_an_image_that_was_removed_is_refused_and_built_again(
    forge: Forge, client: Any
) -> None:
    built = await forge.images.build("main", Told())
    outfitter = LaunchImageResolver(
        home=forge.home,
        configuration=forge.configuration,  # type: ignore[arg-type]
        image_store=forge.shelf,
        builder=forge.builder,
    )
    wanted = await outfitter.newest("main")
    assert wanted.image == built.image
    client.images.remove(built.image.place, force=True)
    with pytest.raises(Conflict, match="removed"):
        await outfitter.prepare("main", wanted)
    again = await forge.images.build("main", Told())
    assert again.is_new and again.image.version == built.image.version
    outfit = await outfitter.prepare("main", await outfitter.newest("main"))
    assert outfit.docker_image == again.image.place


def test_the_base_of_a_dockerfile_is_pinned_wherever_it_is_named() -> None:
    text = "FROM choir-base:1.2 AS x\nFROM other\nfrom --platform=linux/amd64 choir-base\n# choir-base\n"
    assert pin_base_image(text, "b:1") == (
        "FROM b:1 AS x\nFROM other\nfrom --platform=linux/amd64 b:1\n# choir-base\n"
    )
    assert uses_base_image(text) and not uses_base_image("FROM choir-based\n")
