"""`choirctl agent init|build|update|update-all` against a real choird."""

import asyncio
import json
from pathlib import Path

from tests.service.control.world import OPERATOR_TOKEN, World
from tests.support.preloaded_choirctl import run_choirctl


async def choirctl(world: World, *words: str) -> tuple[int, str, str]:
    """Run choirctl over TCP."""
    (world.home / "secrets.json").write_text(json.dumps({"operator-token": OPERATOR_TOKEN}))
    done = await asyncio.to_thread(
        run_choirctl, *words, home=world.home, env={"CHOIR_URL": world.tcp}
    )
    return done.returncode, done.stdout, done.stderr


async def test_a_new_agent_goes_from_nothing_to_a_built_image(stopped: World) -> None:
    before = json.loads(stopped.settings.config_file.read_text())
    repository = stopped.home / "mine/helper.git"
    names = ("--workspace", "spare", "--llm", "default", "--dm", "second")
    code, said, words = await choirctl(
        stopped, "agent", "init", "helper", "--repo", str(repository), *names
    )
    assert (code, said) == (0, "") and "agent build helper" in words
    config = json.loads(stopped.settings.config_file.read_text())
    assert config["agents"].pop("helper")["repo"] == {"url": str(repository), "ref": "main"}
    assert config == before
    code, _, words = await choirctl(stopped, "agent", "init", "helper", "--repo", "/srv/x", *names)
    assert code == 5 and "nothing was changed" in " ".join(words.split())

    await stopped.start()
    code, said, words = await choirctl(stopped, "agent", "build", "helper")
    assert code == 0, words
    assert "fetching the repository of helper" in words and "built" in said
    code, said, _ = await choirctl(stopped, "agent", "build", "helper", "--json")
    view = json.loads(said)
    assert code == 0 and view["result"]["agents"][0]["outcome"] == "skipped"
    image = Path(stopped.home / "images/helper" / view["result"]["agents"][0]["image_version"])
    assert "Who helper is" in (image / "SOUL.md").read_text()

    code, said, _ = await choirctl(stopped, "agent", "update-all")
    assert code == 0 and "helper" in said and "it has no repository" in said


async def test_failures_have_their_words_and_their_exit_codes(stopped: World) -> None:
    await stopped.start()
    code, said, words = await choirctl(stopped, "agent", "build", "nobody")
    assert (code, said) == (3, "") and "nobody" in words
    code, _, words = await choirctl(stopped, "agent", "update", "main")
    assert code == 2 and "agents.main.repo.url" in " ".join(words.split())
    code, said, _ = await choirctl(stopped, "agent", "build", "main", "--json")
    assert code == 2 and json.loads(said)["status"] == "failed"
    code, _, words = await choirctl(stopped, "agent", "init", "Not-An-Id")
    assert code == 2 and "is not a valid agent id" in words
    code, _, words = await choirctl(stopped, "agent", "init", "memory")
    assert code == 5 and "reserved by Choir" in words


async def test_init_without_names_makes_an_agent_that_works_and_delete_removes_it(
    stopped: World,
) -> None:
    before = json.loads(stopped.settings.config_file.read_text())
    before["agents"]["main"]["autostart"] = False  # nobody plays it here
    before["crash_detection_threshold_ms"] = 120_000  # and helper is silent meanwhile
    stopped.settings.config_file.write_text(json.dumps(before))
    await stopped.start()
    code, said, words = await choirctl(stopped, "agent", "init", "helper", "--json")
    assert code == 0, words
    assert json.loads(said)["made"] == ["workspaces.helper", "dms.helper", "agents.helper"]
    for step in (("config", "load"), ("config", "apply"), ("agent", "start", "helper")):
        code, said, words = await choirctl(stopped, *step)
        assert code == 0, words
    code, said, words = await choirctl(stopped, "agent", "status", "helper", "--json")
    bound = json.loads(said)["bindings"]
    assert (bound["workspace"], bound["llm"], bound["dm"]) == ("helper", "default", "helper")

    code, said, words = await choirctl(stopped, "agent", "delete", "helper", "--yes")
    assert code == 5 and "choirctl agent stop helper" in " ".join(words.split())
    hand = await stopped.agent()
    await hand.begin()
    stopping = asyncio.create_task(stopped.post("/v1/agents/helper/stop"))
    await stopped.until_status(hand.spec.session_id, "stopping")
    stopped.runtime.die("helper")
    assert (await stopping).json()["state"] == "stopped"
    code, said, words = await choirctl(stopped, "agent", "delete", "helper")
    assert code == 2 and "--yes" in words
    code, said, words = await choirctl(stopped, "agent", "delete", "helper", "--yes", "--json")
    assert code == 0, words
    assert json.loads(said)["removed"] == ["agents.helper", "dms.helper", "workspaces.helper"]
    assert f"the files in {stopped.home}/workspaces/helper" in json.loads(said)["stays"]
    assert json.loads(stopped.settings.config_file.read_text()) == before
    code, said, words = await choirctl(stopped, "config", "load")
    assert code == 0, words
    code, said, words = await choirctl(stopped, "agent", "delete", "helper", "--yes")
    assert code == 3 and "no agent 'helper'" in words


async def test_init_refuses_names_that_are_not_there(stopped: World) -> None:
    before = stopped.settings.config_file.read_text()
    for option in ("--workspace", "--llm", "--dm"):
        code, _, words = await choirctl(stopped, "agent", "init", "helper", option, "nowhere")
        assert code == 2 and "config.json has no" in " ".join(words.split())
    assert stopped.settings.config_file.read_text() == before


async def test_init_for_a_repository_elsewhere_says_what_to_put_into_it(stopped: World) -> None:
    url = "git@example.org:org/helper.git"
    code, said, words = await choirctl(stopped, "agent", "init", "helper", "--repo", url)
    assert (code, said) == (0, "")
    for name in ("Dockerfile", "FROM choir-base", "SOUL.md", "SOUL-CORE.md", "tools/.gitkeep"):
        assert name in words
    assert url in words
