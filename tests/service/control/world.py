"""A running choird inside the test's process, over real Postgres and NATS, with a gateway stand-in."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from pydantic_settings import BaseSettings, InitSettingsSource

from choir_common.bus import subjects
from choir_common.bus.client import Bus, Endpoint
from choir_common.clients.control import NatsControlClient
from choir_common.clock import Clock
from choir_common.errors import ChoirError
from choir_common.http.client import make_client
from choir_common.postgres.pool import Database
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import (
    DeliveryReceipt,
    InboundAccepted,
    InboundMessage,
    OutboundMessage,
    QuotedMessage,
)
from choir_control.agents.runtimes.port import AgentRuntime, LaunchSpec
from choir_control.app import ControlApp
from choir_control.settings import ControlSecrets, ControlSettings
from tests.service.control.agent_hand import AgentHand
from tests.service.control.hand_runtime import HandRuntime
from tests.support import polling
from tests.support.bus import SERVICE_KEYS
from tests.support.home import make_short_directory
from tests.support.ports import free_port

OPERATOR_TOKEN = "operator-token-of-the-test"
GATEWAY_TOKEN = "gateway-token-of-the-test"
NOT_HERE = ("memory", "gateway", "browser")
MODEL_KEY = "sk-model-key-of-the-test"


def a_config(home: Path) -> dict[str, Any]:
    """Return a configuration with two agents that want the same workspace."""
    agent = {"workspace": "main", "llm": "default", "dm": "console"}
    return {
        "agents": {
            "main": {"defaults": agent, "autostart": True},
            "other": {"defaults": {**agent, "dm": "second"}},
            "never": {"defaults": {**agent, "workspace": "spare"}, "restart": "never"},
        },
        "workspaces": {
            "main": {"path": str(home / "workspaces/main")},
            "spare": {"path": str(home / "workspaces/spare")},
        },
        "models": {
            "default": {"model": "scripted", "endpoint": "http://127.0.0.1:1/v1", "secret": "key"}
        },
        "gateways": {"console": {"type": "console"}, "bot": {"type": "telegram", "secret": "tg"}},
        "dms": {
            "console": {"gateway": "console", "user_id": "operator", "admin": True},
            "second": {"gateway": "bot", "user_id": "7"},
        },
        "heartbeat_interval_ms": 500,
        # a test that is slow on a busy machine loses no agent; see `lose_after`
        "crash_detection_threshold_ms": 120_000,
    }


@dataclass
class GatewayStandIn:
    """What the gateway was asked to deliver; `answer` may be swapped to fail."""

    delivered: list[OutboundMessage] = field(default_factory=list)
    fail_with: list[ChoirError] = field(default_factory=list)
    delay_s: float = 0.0
    in_flight: dict[str, int] = field(default_factory=dict)
    most_in_flight: int = 0
    then_deliver: Callable[[OutboundMessage], Awaitable[DeliveryReceipt]] | None = None
    """A real gateway that delivers, too."""

    async def deliver(self, message: OutboundMessage) -> DeliveryReceipt:
        self.in_flight[message.dm] = self.in_flight.get(message.dm, 0) + 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight[message.dm])
        try:
            await asyncio.sleep(self.delay_s)
            self.delivered.append(message)
            if self.fail_with:
                raise self.fail_with.pop(0)
        finally:
            self.in_flight[message.dm] -= 1
        if self.then_deliver is not None:
            return await self.then_deliver(message)
        return DeliveryReceipt(
            outbox_id=message.outbox_id, status="delivered", message_id=f"m{message.outbox_id}"
        )

    def endpoint(self) -> Endpoint:
        return Endpoint(subjects.deliver_message(), OutboundMessage, self.deliver)

    @property
    def texts(self) -> list[str]:
        """New messages, without edits of earlier ones."""
        return [message.text for message in self.delivered if message.edits is None]


@dataclass
class World:
    """A choird that can be stopped and started again over the same database."""

    home: Path
    settings: ControlSettings
    bus: Bus
    database: Database
    gateway: GatewayStandIn
    runtime: Any = field(default_factory=HandRuntime)
    secrets: ControlSecrets = field(default_factory=ControlSecrets)
    clock: Clock | None = None
    """The clock of choird; the machine's own unless given."""
    control: ControlApp | None = None
    hands: list[AgentHand] = field(default_factory=list)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def lose_after(self, seconds: float) -> None:
        """Let choird take an agent for lost after this silence, from its next start on."""
        config = json.loads(self.settings.config_file.read_text())
        config["crash_detection_threshold_ms"] = int(seconds * 1000)
        self.settings.config_file.write_text(json.dumps(config))

    async def start(self, runtime: AgentRuntime | None = None) -> None:
        """Start choird and wait until it is ready."""
        self.runtime = runtime or HandRuntime()
        self._stop, self.hurry = asyncio.Event(), asyncio.Event()
        self.control = ControlApp(self.settings, self.secrets, self.runtime, clock=self.clock)
        self._task = asyncio.create_task(self.control.run(self._stop, self.hurry))
        await self.until_ready()

    async def until_ready(self) -> None:
        async def ready() -> bool:
            assert self._task is not None
            if self._task.done():
                self._task.result()
            with contextlib.suppress(httpx2.HTTPError):
                return await self.is_ready()
            return False

        await until(ready)

    async def missing(self) -> dict[str, str]:
        """Return what /readyz misses, each with its reason, but for the services that no world has."""
        answer = await self.get("/readyz")
        missing = {
            part["name"]: part["detail"] for part in answer.json()["parts"] if not part["ok"]
        }
        assert answer.status_code == (503 if missing else 200)
        return {name: why for name, why in missing.items() if name not in NOT_HERE}

    async def is_ready(self) -> bool:
        """Tell whether choird says that it can work."""
        return not await self.missing()

    async def stop(self) -> None:
        """Stop choird as SIGTERM would."""
        self._stop.set()
        if self._task is not None:
            done, _ = await asyncio.wait([self._task], timeout=120)
            assert done, f"choird still runs 120 s after its stop; its tasks wait at:\n{_tasks()}"
            await self._task
            self._task = None

    async def close(self) -> None:
        """Stop choird, at once, and hang up all agents."""
        self.hurry.set()
        for hand in self.hands:
            await hand.client.aclose()
        await self.stop()

    @property
    def endpoint(self) -> str:
        return f"unix://{self.settings.control_socket}"

    @property
    def tcp(self) -> str:
        return f"http://127.0.0.1:{self.settings.http_port}"

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        """Ask the host endpoint over its Unix socket."""
        async with make_client(self.endpoint) as client:
            return await client.get(path, **more)

    async def post(self, path: str, **more: Any) -> httpx2.Response:
        """Tell the host endpoint something over its Unix socket."""
        async with make_client(self.endpoint, timeout_s=60) as client:
            return await client.post(path, **more)

    async def patch(self, path: str, **more: Any) -> httpx2.Response:
        """Send PATCH to the operator API."""
        async with make_client(self.endpoint, timeout_s=60) as client:
            return await client.patch(path, **more)

    async def put(self, path: str, **more: Any) -> httpx2.Response:
        """Change something over the host endpoint's Unix socket."""
        async with make_client(self.endpoint, timeout_s=60) as client:
            return await client.put(path, **more)

    async def delete(self, path: str) -> httpx2.Response:
        """Delete something over the host endpoint's Unix socket."""
        async with make_client(self.endpoint) as client:
            return await client.delete(path)

    async def say(
        self,
        text: str,
        update_id: str,
        dm: str = "console",
        reply_to: str | None = None,
        edits: str | None = None,
    ) -> InboundAccepted:
        """Send a user's message as the gateway would."""
        message = a_message(text, update_id, dm, reply_to=reply_to, edits=edits)
        return await NatsControlClient(self.bus).accept(message)

    async def agent(self, starts: int = 1) -> AgentHand:
        """Return the agent of the newest start, once there have been `starts`."""

        async def started() -> bool:
            return len(self.runtime.specs) >= starts

        await until(started)
        return self.hand(self.runtime.specs[-1])

    def hand(self, spec: LaunchSpec, endpoint: str | None = None) -> AgentHand:
        """Return a client for one start of an agent, on its own socket or on `endpoint`."""
        self.hands.append(AgentHand(spec, endpoint))
        return self.hands[-1]

    async def delivered(self, count: int) -> list[str]:
        """Wait for `count` new messages and return their texts.

        A repeated one counts once: a stop may cut its receipt, and the gateway knows its number.
        """

        def texts() -> list[str]:
            new = [message for message in self.gateway.delivered if message.edits is None]
            return list({message.outbox_id: message.text for message in new}.values())

        async def there() -> bool:
            return len(texts()) >= count

        await until(there)
        return texts()

    async def session(self, session_id: str) -> dict[str, Any]:
        """Return what /v1 shows of a session."""
        found: dict[str, Any] = (await self.get(f"/v1/sessions/{session_id}")).json()
        return found

    async def until_status(self, session_id: str, status: str) -> None:
        async def reached() -> bool:
            return bool((await self.session(session_id))["status"] == status)

        await until(reached)

    async def verify(self, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.get(f"/v1/sessions/{session_id}/verify")).json()
        return found


def a_message(
    text: str,
    update_id: str,
    dm: str = "console",
    *,
    attachments: tuple[Attachment, ...] = (),
    message_id: str | None = None,
    edits: str | None = None,
    reply_to: str | None = None,
    quoted: str = "",
) -> InboundMessage:
    """Make what a gateway makes of a user's message."""
    return InboundMessage(
        gateway="console" if dm == "console" else "bot",
        dm=dm,
        update_id=update_id,
        text=text,
        sent_at=datetime.now(UTC),
        attachments=attachments,
        message_id=message_id,
        edits=edits,
        reply_to=QuotedMessage(message_id=reply_to or "1", text=quoted)
        if reply_to or quoted
        else None,
    )


async def until(condition: Callable[[], Awaitable[bool]], within: float = 200) -> None:
    """Wait until `condition` holds."""
    await polling.until(condition, within)


def _tasks() -> str:
    """Tell where each task of this loop waits, one line for each."""
    return "\n".join(
        f"{task.get_name()}: {task.get_stack()[-1:] or 'no frame'}" for task in asyncio.all_tasks()
    )


class GivenSettings(ControlSettings):
    """Settings that nothing in the environment changes; reading it takes a tenth of a start."""

    @classmethod
    def settings_customise_sources(  # type: ignore[override]
        cls, settings_cls: type[BaseSettings], init_settings: InitSettingsSource, **_: object
    ) -> tuple[InitSettingsSource]:
        return (init_settings,)


@contextlib.asynccontextmanager
async def make_world(
    dsn: str, password: str, nats_url: str, database: Database, bus: Bus
) -> AsyncIterator[World]:
    """Make a home and a stopped choird in it."""
    home = make_short_directory("choir-ctrl-")
    (home / "config.json").write_text(json.dumps(a_config(home)))
    settings = GivenSettings(
        home=home,
        postgres_dsn=dsn,
        nats_url=nats_url,
        http_port=free_port(),
        # most tests stop choird to see what the next one finds; those of a good end say otherwise
        agents_stop_s=0,
    )
    secrets = ControlSecrets(
        postgres_password=password,
        nats_key=SERVICE_KEYS["control"],
        operator_token=OPERATOR_TOKEN,
        gateway_token=GATEWAY_TOKEN,
        secrets={"key": MODEL_KEY, "tg": "bot-token-of-the-test"},
    )
    gateway = GatewayStandIn()
    world = World(home, settings, bus, database, gateway, secrets=secrets)
    try:
        async with bus.serve("choir-gateway", "1.0.0", gateway.endpoint()):
            yield world
    finally:
        await world.close()
        shutil.rmtree(home, ignore_errors=True)
