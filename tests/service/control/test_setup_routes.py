"""config.json as a text, and secrets that are only written: what the page `setup` needs of control."""

import asyncio
import json
import logging
import os
import stat
from typing import Any

import httpx2
import pytest

from tests.service.control.world import MODEL_KEY, World

CANARY = "canary+value/of the test=" + os.urandom(9).hex()
"""Random, so that a hit in any text is the value itself."""


async def read(world: World) -> dict[str, Any]:
    answer = await world.get("/v1/config/file")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def write(world: World, text: str, digest: str) -> httpx2.Response:
    return await world.put("/v1/config/file", json={"text": text, "digest": digest})


def changed(text: str, **values: Any) -> str:
    return json.dumps(json.loads(text) | values, indent=4) + "\n"


async def test_a_saved_text_is_stored_as_it_is_and_active_only_after_apply(world: World) -> None:
    world.settings.config_file.chmod(0o640)
    before = await read(world)
    assert before["text"] == world.settings.config_file.read_text()
    text = changed(before["text"], summary_timeout_ms=31_000)
    saved = await write(world, text, before["digest"])
    assert saved.status_code == 200 and saved.json()["digest"] != before["digest"]
    assert world.settings.config_file.read_text() == text
    assert stat.S_IMODE(world.settings.config_file.stat().st_mode) == 0o640
    assert await read(world) == saved.json()
    assert not (await world.get("/v1/config")).json()["staged"]
    difference = (await world.post("/v1/config/load")).json()
    assert [it["path"] for it in difference["changes"]] == ["summary_timeout_ms"]
    await world.post("/v1/config/apply", json={"digest": difference["digest"]})
    assert (await world.get("/v1/config")).json()["config"]["summary_timeout_ms"] == 31_000


async def test_of_two_edits_of_one_text_the_second_is_refused(world: World) -> None:
    before = await read(world)
    texts = [changed(before["text"], summary_timeout_ms=30_000 + n) for n in range(8)]
    answers = await asyncio.gather(*(write(world, it, before["digest"]) for it in texts))
    accepted = [text for text, it in zip(texts, answers, strict=True) if it.status_code == 200]
    assert len(accepted) == 1
    assert {it.status_code for it in answers} == {200, 409}
    assert world.settings.config_file.read_text() == accepted[0]
    refused = next(it for it in answers if it.status_code == 409)
    assert "was changed in the meantime" in refused.json()["detail"]
    assert [it.name for it in world.home.glob(".config.json*")] == []


UNUSABLE = (
    (lambda text: text.rstrip()[:-1], "line 1"),
    (lambda text: "[]", "config.json"),
    (lambda text: changed(text, summary_timeout=1), "unknown setting"),
    (lambda text: changed(text, heartbeat_interval_ms="soon"), "heartbeat_interval_ms"),
    (lambda text: changed(text, workspaces={}), "agents.main.defaults.workspace"),
)


async def test_a_text_that_is_not_usable_is_refused_with_its_place_and_changes_nothing(
    world: World, subtests: pytest.Subtests
) -> None:
    before = await read(world)
    for make, told in UNUSABLE:
        with subtests.test(told):
            refused = await write(world, make(before["text"]), before["digest"])
            assert refused.status_code == 400 and told in refused.json()["detail"], refused.text
            assert world.settings.config_file.read_text() == before["text"]


async def test_the_line_of_each_fault_is_told(world: World) -> None:
    before = await read(world)
    text = changed(before["text"], heartbeat_interval_ms="soon")
    line = next(n for n, it in enumerate(text.splitlines(), 1) if "heartbeat_interval_ms" in it)
    refused = await write(world, text, before["digest"])
    assert f"line {line}, heartbeat_interval_ms: " in refused.json()["detail"]


async def test_a_secrets_value_is_neither_stored_in_nor_read_from_the_file(
    world: World, subtests: pytest.Subtests
) -> None:
    before = await read(world)
    for is_escaped in (False, True):
        with subtests.test(is_escaped=is_escaped):
            world.settings.config_file.write_text(before["text"])
            config = json.loads(before["text"])
            config["models"]["default"]["secret"] = MODEL_KEY
            text = json.dumps(config)
            if is_escaped:
                text = text.replace(MODEL_KEY, f"\\u{ord(MODEL_KEY[0]):04x}{MODEL_KEY[1:]}")
            refused = await write(world, text, before["digest"])
            assert refused.status_code == 400 and "'key'" in refused.json()["detail"]
            assert MODEL_KEY not in refused.text
            assert world.settings.config_file.read_text() == before["text"]
            world.settings.config_file.write_text(text)
            hidden = await world.get("/v1/config/file")
            assert hidden.status_code == 400 and MODEL_KEY not in hidden.text


async def test_a_link_to_the_file_stays_a_link(world: World) -> None:
    elsewhere = world.home / "versioned.json"
    world.settings.config_file.rename(elsewhere)
    world.settings.config_file.symlink_to(elsewhere)
    before = await read(world)
    text = changed(before["text"], summary_timeout_ms=31_000)
    assert (await write(world, text, before["digest"])).status_code == 200
    assert world.settings.config_file.is_symlink() and elsewhere.read_text() == text


async def test_a_stored_secret_is_used_after_apply_and_shown_nowhere(
    world: World, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    answers = [await world.put("/v1/secrets/key", json={"value": CANARY})]
    assert answers[0].json() == {"name": "key", "replaced": False}
    path = world.settings.secrets_json
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["key"] == CANARY
    answers.append(await world.post("/v1/secrets/apply"))
    assert answers[-1].json()["changed"] == ["key"]
    answers.append(await world.put("/v1/secrets/key", json={"value": f"{CANARY}2"}))
    assert answers[-1].json()["replaced"]
    for route in (
        "/v1/secrets",
        "/v1/config",
        "/v1/config/file",
        "/v1/status",
        "/v1/config/report",
    ):
        answers.append(await world.get(route))
    shown = "".join(it.text for it in answers) + caplog.text + "".join(capfd.readouterr())
    assert CANARY not in shown


async def test_what_is_no_secret_is_refused_without_quoting_it(world: World) -> None:
    world.settings.secrets_json.write_text(json.dumps({"mine": "a-secret-of-the-user"}))
    world.settings.secrets_json.chmod(0o600)
    before = world.settings.secrets_json.read_text()
    tries: list[tuple[str, object, int]] = [
        ("operator-token", {"value": CANARY}, 403),
        ("nats-key-memory", {"value": CANARY}, 403),
        ("-bad", {"value": CANARY}, 400),
        ("key", {"value": "   "}, 400),
        ("key", {"value": f"{CANARY}\x00"}, 400),
        ("key", {"value": [CANARY]}, 400),
        ("key", {"value": CANARY * 4_000}, 400),
        ("key", {"val": CANARY}, 400),
        ("key", {}, 400),
    ]
    for name, body, status in tries:
        refused = await world.put(f"/v1/secrets/{name}", json=body)
        assert refused.status_code == status, (name, refused.text)
        assert CANARY not in refused.text
    broken = await world.put("/v1/secrets/key", content=f'{{"value": "{CANARY}')
    assert broken.status_code == 400 and CANARY not in broken.text
    assert world.settings.secrets_json.read_text() == before


async def test_a_broken_secrets_file_is_not_replaced(world: World) -> None:
    world.settings.secrets_json.write_text('{"mine": ')
    world.settings.secrets_json.chmod(0o600)
    refused = await world.put("/v1/secrets/key", json={"value": CANARY})
    assert refused.status_code == 400 and CANARY not in refused.text
    assert world.settings.secrets_json.read_text() == '{"mine": '
