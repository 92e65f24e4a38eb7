"""An agent's own prompts for memory: from config.json or its repository, checked when they are staged."""

from pathlib import Path
from typing import Any

import pytest

from choir_common.clients.control import NatsMemorySettingsClient
from choir_common.wire.config import MemoryPrompts
from tests.service.control.test_configuration import apply, edit, load
from tests.service.control.world import World
from tests.support.repositories import GitRepository


@pytest.fixture
def own(tmp_path: Path) -> GitRepository:
    """The repository of `main`."""
    repository = GitRepository(tmp_path / "main.git")
    repository.commit({"identity/facts.md": "Plants only.", "identity/SOUL.md": "soul"})
    return repository


def use(world: World, own: GitRepository, file: str = "identity/facts.md") -> None:
    def change(config: dict[str, Any]) -> None:
        config["agents"]["main"]["repo"] = {"url": str(own.path)}
        config["agents"]["main"]["memory_prompts"] = {
            "extraction": {"file": file},
            "summaries": {"text": "Keep the weather."},
        }

    edit(world, change)


async def read_prompts(world: World) -> dict[str, MemoryPrompts]:
    return (await NatsMemorySettingsClient(world.bus).read()).prompts


async def test_memory_gets_the_prompts_of_the_file_and_the_repository(
    world: World, own: GitRepository
) -> None:
    assert await read_prompts(world) == {}
    use(world, own)
    staged = await load(world)
    categories = {change["path"]: change["category"] for change in staged["changes"]}
    assert categories["agents.main.memory_prompts.summaries"] == "hot-reload"
    await apply(world)
    expected = MemoryPrompts(extraction="Plants only.", summaries="Keep the weather.")
    assert await read_prompts(world) == {"main": expected}
    own.commit({"identity/facts.md": "Animals, too."})
    await load(world)
    assert (await read_prompts(world))["main"].extraction == "Animals, too."
    shown = (await world.get("/v1/config")).json()["config"]["agents"]["main"]
    assert shown["memory_prompts"]["extraction"]["file"] == "identity/facts.md"


MISSING = (
    ("identity/none.md", "There is no file"),
    ("identity", "agents.main.memory_prompts"),
)


async def test_a_prompt_file_that_is_missing_stages_nothing(
    world: World, own: GitRepository, subtests: pytest.Subtests
) -> None:
    for file, said in MISSING:
        with subtests.test(file):
            use(world, own, file)
            answer = await world.post("/v1/config/load")
            assert answer.status_code == 400 and said in answer.text
            assert "memory_prompts.extraction.file" in answer.text
            assert await read_prompts(world) == {}


async def test_an_agent_without_a_repository_can_name_no_file(world: World) -> None:
    def change(config: dict[str, Any]) -> None:
        config["agents"]["other"]["memory_prompts"] = {"summaries": {"file": "identity/days.md"}}

    edit(world, change)
    answer = await world.post("/v1/config/load")
    assert answer.status_code == 400 and "neither a repository nor a folder" in answer.text
