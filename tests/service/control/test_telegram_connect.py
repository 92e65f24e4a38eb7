"""A Telegram bot is connected completely or not at all, and only by its code, in time."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from choir_common.clock import SystemClock
from choir_testing.telegram import FakeTelegram, run_fake_telegram
from tests.service.control.test_sessions import stopped_in_a_turn
from tests.service.control.world import GATEWAY_TOKEN, World, until
from tests.support.service_process import ServiceProcess, service_process

TOKEN = "123456:token-from_BotFather"
ADA = 4711
FULL_DISK = (
    "ALTER TABLE choir_control.config_versions ADD CONSTRAINT full_disk CHECK (version < {})"
)


@dataclass
class ForwardClock(SystemClock):
    """The machine's clock, moved forward by a test."""

    ahead: timedelta = field(default_factory=timedelta)

    def now(self) -> datetime:
        return super().now() + self.ahead


@dataclass
class Scene:
    """A choird with a real gateway and a bot."""

    world: World
    telegram: FakeTelegram
    clock: ForwardClock

    async def begin(self, **more: object) -> dict[str, Any]:
        body = {"token": TOKEN, "api_url": self.telegram.api_url, "agent_id": "other", **more}
        answer = await self.world.post("/v1/telegram/connections", json=body)
        found: dict[str, Any] = answer.json()
        assert answer.status_code == 201, answer.text
        assert TOKEN not in answer.text
        return found

    async def ends(self, attempt: dict[str, Any]) -> dict[str, Any]:
        """Wait until an attempt is over; return its state."""
        last: dict[str, Any] = {}

        async def over() -> bool:
            last.update(
                (
                    await self.world.get(f"/v1/telegram/connections/{attempt['connection_id']}")
                ).json()
            )
            return last["state"] in ("connected", "failed")

        await until(over)
        return last

    async def send_code(self, attempt: dict[str, Any]) -> dict[str, Any]:
        await self.telegram.user(ADA, TOKEN).send(f"/start {attempt['code']}")
        return await self.ends(attempt)

    def files(self) -> tuple[Any, Any]:
        """Return config.json and secrets.json."""
        settings = self.world.settings
        return tuple(
            json.loads(path.read_text()) for path in (settings.config_file, settings.secrets_json)
        )


@pytest.fixture
async def scene(stopped: World) -> AsyncIterator[Scene]:
    async with (
        run_fake_telegram() as telegram,
        service_process("choir_gateway", stopped.settings.nats_url) as gateway,
    ):
        yield await start(stopped, telegram, gateway)
        await gateway.stop()
        assert TOKEN not in gateway.log


async def start(world: World, telegram: FakeTelegram, gateway: ServiceProcess) -> Scene:
    telegram.bot(TOKEN)
    gateway.secrets = {"gateway_token": GATEWAY_TOKEN}
    config = json.loads(world.settings.config_file.read_text())
    config["agents"]["main"]["autostart"] = False
    world.settings.config_file.write_text(json.dumps(config))
    world.settings.secrets_json.write_text(json.dumps({"mine": "a-secret-of-the-user"}))
    world.settings.secrets_json.chmod(0o600)
    world.settings = world.settings.model_copy(update={"gateway_endpoint": gateway.endpoint})
    clock = ForwardClock()
    world.clock = clock
    await gateway.spawn()
    await world.start()
    # its socket is there a little later than its process
    await until(gateway.ready)
    return Scene(world, telegram, clock)


@pytest.mark.parametrize("last_version", [pytest.param(2, marks=pytest.mark.nightly), 3])
async def test_a_step_that_fails_takes_back_the_earlier_ones(
    scene: Scene, last_version: int
) -> None:
    before = scene.files()
    attempt = await scene.begin()
    # the secret is version 2, the configuration version 3
    await scene.world.database.execute(FULL_DISK.format(last_version))
    failed = await scene.send_code(attempt)
    assert failed["state"] == "failed" and failed["gateway"] == ""
    assert scene.files() == before
    config = (await scene.world.get("/v1/config")).json()["config"]
    assert "telegram" not in config["gateways"]
    await scene.world.database.execute(
        "ALTER TABLE choir_control.config_versions DROP CONSTRAINT full_disk"
    )
    done = await scene.send_code(await scene.begin())
    assert (done["state"], done["gateway"], done["dm"]) == ("connected", "telegram", "phone")


async def test_an_edit_meanwhile_is_neither_overwritten_nor_applied(scene: Scene) -> None:
    attempt = await scene.begin()
    config, secrets = scene.files()
    config["event_window"] = 99
    scene.world.settings.config_file.write_text(json.dumps(config))
    failed = await scene.send_code(attempt)
    assert "event_window" in failed["error"]["message"]
    assert scene.files() == (config, secrets)
    refused = await scene.world.post(
        "/v1/telegram/connections", json={"token": TOKEN, "agent_id": "other"}
    )
    assert refused.status_code == 409 and "config apply" in refused.text


async def test_an_unknown_person_is_refused_before_anybody_is_told_a_code(scene: Scene) -> None:
    body = {"token": TOKEN, "agent_id": "other", "person": "nobody"}
    refused = await scene.world.post("/v1/telegram/connections", json=body)
    assert refused.status_code == 404 and "no person 'nobody'" in refused.text
    assert (await scene.world.get("/v1/telegram/connections")).json()["items"] == []


async def test_a_code_is_valid_for_ten_minutes_and_for_one_attempt(scene: Scene) -> None:
    before = scene.files()
    first = await scene.begin()
    second = await scene.begin()
    assert (await scene.ends(first))["error"]["code"] == "conflict"
    await scene.telegram.user(ADA, TOKEN).send(first["code"])
    scene.clock.ahead = timedelta(minutes=10, seconds=1)
    assert (await scene.ends(second))["error"]["code"] == "deadline_exceeded"
    assert scene.files() == before


async def test_a_cancelled_attempt_accepts_no_code(scene: Scene) -> None:
    before, attempt = scene.files(), await scene.begin()
    cancelled = await scene.world.delete(f"/v1/telegram/connections/{attempt['connection_id']}")
    assert cancelled.json()["state"] == "failed"
    await scene.send_code(attempt)
    assert scene.files() == before
    # what the first code might still do would be in the way of the second attempt
    done = await scene.send_code(await scene.begin())
    assert (done["state"], done["gateway"]) == ("connected", "telegram")
    listed = (await scene.world.get("/v1/telegram/connections")).json()["items"]
    assert [item["state"] for item in listed] == ["connected", "failed"]
    assert (await scene.world.get("/v1/telegram/connections/tg_unknown")).status_code == 404


async def test_an_outage_of_telegram_is_shown_and_survived(scene: Scene) -> None:
    attempt = await scene.begin()
    scene.telegram.disconnected = True

    async def shown() -> bool:
        view = (
            await scene.world.get(f"/v1/telegram/connections/{attempt['connection_id']}")
        ).json()
        return "cannot reach Telegram" in view["trouble"]

    await until(shown)
    scene.telegram.disconnected = False
    done = await scene.send_code(attempt)
    assert (done["state"], done["trouble"]) == ("connected", "")


async def test_a_webhook_is_removed_only_if_that_is_wanted(scene: Scene) -> None:
    bot = scene.telegram.bot(TOKEN)
    bot.webhook.url = "https://other.example/hook"
    body = {"token": TOKEN, "api_url": scene.telegram.api_url, "agent_id": "other"}
    refused = await scene.world.post("/v1/telegram/connections", json=body)
    assert refused.status_code == 409 and "other.example" in refused.text and bot.webhook.url
    await scene.begin(replace_webhook=True)
    assert bot.webhook.url == ""


@pytest.mark.parametrize("token", ["", "nonsense", "5:öäü", f"{TOKEN} "])
async def test_a_body_that_does_not_fit_is_refused_and_never_quoted(
    scene: Scene, token: str
) -> None:
    refused = await scene.world.post(
        "/v1/telegram/connections", json={"token": token, "agent_id": "other"}
    )
    assert refused.status_code == 400 and "@BotFather" in refused.text
    assert TOKEN not in refused.text


async def test_an_unknown_agent_is_refused_before_telegram_is_called(scene: Scene) -> None:
    refused = await scene.world.post(
        "/v1/telegram/connections", json={"token": TOKEN, "agent_id": "nobody"}
    )
    assert refused.status_code == 404
    assert not scene.telegram.bot(TOKEN).calls


async def test_an_agent_with_open_work_stays_and_the_rest_is_said(scene: Scene) -> None:
    started = await scene.world.post("/v1/agents/main/start", json={})
    assert started.status_code == 200, started.text
    agent = await scene.world.agent()
    await agent.begin()
    await stopped_in_a_turn(scene.world, agent)
    done = await scene.send_code(await scene.begin(agent_id="main"))
    assert done["state"] == "connected"
    [sentence] = done["remaining"]
    assert "open work in the conversation 'console'" in sentence
    assert "`choirctl agent stop main`" in sentence
    resumed = await scene.world.agent(starts=2)
    assert resumed.spec.session_id == agent.spec.session_id


async def test_an_agent_that_cannot_start_is_named_with_its_reason(scene: Scene) -> None:
    scene.world.runtime.refuse_starts = True
    done = await scene.send_code(await scene.begin())
    [sentence] = done["remaining"]
    assert "other was not moved" in sentence and "the engine is away" in sentence
    assert "`choirctl agent start other`" in sentence
