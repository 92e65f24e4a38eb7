"""secrets.json is read again whole; agents and the gateway get what is new, and nothing shows a value."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from choir_testing.telegram import FakeTelegram, run_fake_telegram
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_process import spawn
from tests.service.control.world import GATEWAY_TOKEN, MODEL_KEY, OPERATOR_TOKEN, World, until
from tests.support.service_process import ServiceProcess, service_process

NEW_KEY = "sk-rotated-key-of-the-test"
BOT = "111:bot-of-the-test"


def write(world: World, values: dict[str, str], mode: int = 0o600) -> None:
    path = world.settings.secrets_json
    path.write_text(json.dumps(values))
    path.chmod(mode)


async def apply(world: World) -> dict[str, Any]:
    answer = await world.post("/v1/secrets/apply")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def key_of(agent: AgentHand) -> str | None:
    answer = json.loads(await agent.call("GET_SECRETS", b'{"resources": ["key"]}'))
    found: str | None = answer["secrets"].get("key")
    return found


async def test_a_running_agent_is_told_and_fetches_the_new_value(
    world: World, agent: AgentHand
) -> None:
    assert await key_of(agent) == MODEL_KEY
    write(world, {"key": NEW_KEY, "spare": "value-of-spare"})
    assert await key_of(agent) == MODEL_KEY
    done = await apply(world)
    assert (done["changed"], done["added"], done["removed"]) == (["key"], ["spare"], ["tg"])
    assert done["missing"] == ["tg"]
    assert NEW_KEY not in json.dumps(done)
    told = await agent.next_signal()
    assert told.body.kind == "config_changed"
    assert await key_of(agent) == NEW_KEY
    beat = json.loads(await agent.call("HEARTBEAT", agent.heartbeat()))
    # without the signal it would learn of it here
    assert beat["config_version_latest"] == done["version"] == 2


UNFIT = (
    (None, 0, 404),
    ('{"key": "%s"}', 0o644, 403),
    ('{"key": "%s"', 0o600, 400),
    ('{"key": ["%s"]}', 0o600, 400),
    ('["%s"]', 0o600, 400),
)


async def test_a_file_that_does_not_fit_changes_nothing_and_is_not_quoted(
    world: World, agent: AgentHand, subtests: pytest.Subtests
) -> None:
    for text, mode, status in UNFIT:
        with subtests.test(text=text, mode=mode):
            if text is not None:
                path = world.settings.secrets_json
                path.write_text(text % NEW_KEY)
                path.chmod(mode)
            refused = await world.post("/v1/secrets/apply")
            assert refused.status_code == status, refused.text
            assert "secrets.json" in refused.json()["detail"] and NEW_KEY not in refused.text
            assert await key_of(agent) == MODEL_KEY
            assert (await world.get("/v1/config")).json()["version"] == 1


async def test_without_a_database_nothing_is_swapped(world: World, agent: AgentHand) -> None:
    write(world, {"key": NEW_KEY})
    await world.database.execute(
        "ALTER TABLE choir_control.config_versions ADD CONSTRAINT full_disk CHECK (version < 2)"
    )
    assert (await world.post("/v1/secrets/apply")).status_code >= 500
    assert await key_of(agent) == MODEL_KEY


async def test_names_are_listed_and_never_values_nor_the_stacks_own(world: World) -> None:
    write(
        world, {"key": NEW_KEY, "nats-key-memory": "own-of-the-stack", "lonely": "value-of-lonely"}
    )
    await apply(world)
    answer = await world.get("/v1/secrets")
    rows = {row["name"]: (row["set"], row["used_by"]) for row in answer.json()["items"]}
    assert rows == {
        "key": (True, ["models.default"]),
        "lonely": (True, []),
        "tg": (False, ["gateways.bot"]),
    }
    assert NEW_KEY not in answer.text


async def test_what_the_environment_supplies_survives_an_apply(stopped: World) -> None:
    supplied = {"key": "sk-key-of-the-environment"}
    stopped.secrets = stopped.secrets.model_copy(update={"supplied": supplied})
    await stopped.start()
    agent = await stopped.agent()
    await agent.begin()
    write(stopped, {"key": NEW_KEY})
    assert (await apply(stopped))["overridden"] == ["key"]
    assert await key_of(agent) == "sk-key-of-the-environment"


async def test_no_value_reaches_a_log_line_the_database_or_an_answer(stopped: World) -> None:
    write(stopped, {"key": NEW_KEY, "tg": BOT})
    config = json.loads(stopped.settings.config_file.read_text())
    config["agents"]["main"]["autostart"] = False
    stopped.settings.config_file.write_text(json.dumps(config))
    process = await spawn(stopped)

    async def ready() -> bool:
        assert process.returncode is None
        try:
            return await stopped.is_ready()
        except Exception:
            return False

    await until(ready, 60)
    await apply(stopped)
    # forced errors: an answer, and a log line with what it could not read
    config["models"]["default"]["endpoint"] = f"http://{NEW_KEY}@nowhere/v1"
    stopped.settings.config_file.write_text(json.dumps(config))
    refused = await stopped.post("/v1/config/load")
    assert refused.status_code == 400 and NEW_KEY not in refused.text
    shown = [(await stopped.get(f"/v1/{path}")).text for path in ("config", "status", "secrets")]
    rows = await stopped.database.fetch("SELECT * FROM choir_control.config_versions")
    process.terminate()
    _, err = await asyncio.wait_for(process.communicate(), 60)
    everything = "".join([err.decode(), *shown, *(str(dict(row)) for row in rows)])
    for value in (NEW_KEY, BOT, OPERATOR_TOKEN):
        assert value not in everything


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with run_fake_telegram() as fake:
        yield fake


@pytest.fixture
async def gateway(stopped: World) -> AsyncIterator[ServiceProcess]:
    """A real gateway on the world's bus, without any bot's token."""
    async with service_process("choir_gateway", stopped.settings.nats_url) as process:
        process.secrets = {"gateway_token": GATEWAY_TOKEN}
        yield process
        await process.stop()
        assert BOT not in process.log


async def test_a_bots_token_reaches_a_running_gateway_and_its_user_is_heard(
    stopped: World, gateway: ServiceProcess, telegram: FakeTelegram
) -> None:
    telegram.bot(BOT)
    config = json.loads(stopped.settings.config_file.read_text())
    config["gateways"]["bot"]["api_url"] = telegram.api_url
    stopped.settings.config_file.write_text(json.dumps(config))
    stopped.settings = stopped.settings.model_copy(update={"gateway_endpoint": gateway.endpoint})
    none_yet = {"key": MODEL_KEY}
    stopped.secrets = stopped.secrets.model_copy(update={"secrets": none_yet})
    await gateway.spawn()
    await stopped.start()
    write(stopped, {"key": MODEL_KEY, "tg": BOT})
    await apply(stopped)
    await telegram.user(7, BOT).send("do you hear me?")

    async def heard() -> bool:
        return bool(
            await stopped.database.fetchval(
                "SELECT count(*) FROM choir_control.inbox WHERE text = 'do you hear me?'"
            )
        )

    await until(heard)

    async def reported() -> bool:
        report = (await stopped.get("/v1/config/report")).json()
        return bool(report["gateway"]["state"] == "applied")

    await until(reported)
    # a gateway that restarts with the old secrets gets the new ones again
    await gateway.kill()
    await gateway.start()
    await telegram.user(7, BOT).send("and now?")

    async def heard_again() -> bool:
        return bool(
            await stopped.database.fetchval(
                "SELECT count(*) FROM choir_control.inbox WHERE text = 'and now?'"
            )
        )

    await until(heard_again)


async def test_a_webhooks_secret_reaches_the_gateway_and_so_does_the_one_after_it(
    stopped: World, gateway: ServiceProcess, telegram: FakeTelegram
) -> None:
    bot, url = telegram.bot(BOT), "http://127.0.0.1:1/telegram/bot"
    config = json.loads(stopped.settings.config_file.read_text())
    hook = {"url": url, "secret": "tg-hook"}
    config["gateways"]["bot"] |= {"api_url": telegram.api_url, "webhook": hook}
    stopped.settings.config_file.write_text(json.dumps(config))
    stopped.settings = stopped.settings.model_copy(update={"gateway_endpoint": gateway.endpoint})
    held = {"key": MODEL_KEY, "tg": BOT}
    stopped.secrets = stopped.secrets.model_copy(update={"secrets": held})
    await gateway.spawn()
    await stopped.start()

    async def missed() -> bool:
        return "tg-hook" in gateway.log

    await until(missed)
    for secret in ("hook-secret-1", "hook-secret-2"):
        write(stopped, {**held, "tg-hook": secret})
        await apply(stopped)

        async def told(secret: str = secret) -> bool:
            return (bot.webhook.url, bot.webhook.secret_token) == (url, secret)

        await until(told)
        assert secret not in gateway.log
    assert MODEL_KEY not in gateway.log
