"""A choird with the gateway's real console, an agent that answers by a script, and clients of its API."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx2
from openai import AsyncOpenAI

from choir_common.clients.control import NatsControlClient
from choir_common.http.client import make_client
from choir_common.http.listen import bind_unix, serve
from choir_common.redactor import Redactor
from choir_common.wire.events import CoreStarted, CoreStopped, ModelOutput, Reply
from choir_common.wire.rpc import ReplyDraft, StatusRequest
from choir_common.wire.schedules import WakeUp
from choir_common.wire.signals import UserMessageSignal
from choir_gateway.api.http_app import TokenReceiver, make_gateway_app
from choir_gateway.channel_registry import ChannelRegistry
from choir_gateway.channels.console.channel import ConsoleChannel, ConsoleChannelFactory
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.spool import FileSpool, SpoolLimits
from choir_gateway.control_files import ControlFileClient
from tests.service.control.agent_hand import AgentHand
from tests.service.control.shared_sessions import take_up
from tests.service.control.world import GATEWAY_TOKEN, World, until

CHAT = "/openai/v1/chat/completions"
DRAFT_PAUSE_S = 0.4


def use_console_only(world: World, **people: str) -> None:
    """Leave only the gateway of the console in config.json; `people` are roles by name."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    config["gateways"] = {"console": {"type": "console"}}
    config["dms"]["second"] = {"gateway": "console", "user_id": "7"}
    if people:
        config["people"] = {name: {"role": role} for name, role in people.items()}
        first, second = list(people)[:2]
        config["people"][first]["identities"] = [{"gateway": "console", "user": "operator"}]
        config["people"][second]["identities"] = [{"gateway": "console", "user": "7"}]
    path.write_text(json.dumps(config))


@contextlib.asynccontextmanager
async def running_console(world: World) -> AsyncIterator[None]:
    """Run the gateway's HTTP application and its console against control."""
    control, conversations = NatsControlClient(world.bus, "gw_1"), ConversationDirectory()
    limits = SpoolLimits(10_000_000, 100_000_000, timedelta(days=1))
    files = ControlFileClient("http://127.0.0.1:1", None)
    console = ConsoleChannel(control, FileSpool(world.home / "gateway", limits), files)
    registry = ChannelRegistry(
        control=control,
        conversations=conversations,
        factories={"console": ConsoleChannelFactory(console)},
        secrets={},
    )
    app = make_gateway_app(
        bus=world.bus,
        registry=registry,
        console=console,
        token_receiver=TokenReceiver(registry=registry, redactor=Redactor(), control_files=files),
        console_token=None,
        control_token=GATEWAY_TOKEN,
    )
    world.gateway.then_deliver = registry.deliver
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        server = tasks.create_task(
            serve(app, [bind_unix(world.home / "socks" / "gateway.sock")], stop)
        )
        running = tasks.create_task(registry.run(world.bus))
        yield
        console.close()
        stop.set()
        running.cancel()
        await server


@dataclass
class ScriptedAgent:
    """An agent that answers each message with drafts and a reply."""

    hand: AgentHand
    answer: Callable[[str], str] = lambda text: f"echo: {text}"
    work: Callable[[UserMessageSignal], Awaitable[str]] | None = None
    """Does what a message asks for and returns the answer."""
    kind: str = "answer"
    messages: list[UserMessageSignal] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.messages]

    async def run(self) -> None:
        while True:
            try:
                message = await self.hand.next_message(within=600)
            except AssertionError:  # the stream ends when a conversation is bound
                continue
            self.messages.append(message)
            await take_up(self.hand, message)
            if message.wake_up is not None and message.wake_up.as_job:
                await self._do_job(message, message.wake_up)
                continue
            await self.may_answer.wait()
            text = await self.work(message) if self.work else self.answer(message.text)
            await self._reply(message, text)

    async def _do_job(self, message: UserMessageSignal, wake_up: WakeUp) -> None:
        """Start the core job of a message, and end it when answers are allowed."""
        name = (wake_up.job and wake_up.job.name) or f"schedule-{wake_up.schedule_id}"
        job: Any = {"job_id": f"job_{message.inbox_id}", "job_name": name}
        task: Any = {"call_id": "", "dm": message.dm, "task_spec": message.text}
        self.hand.add(CoreStarted(**job, **task, answers=message.inbox_id))
        await self.hand.flush()
        report = StatusRequest(lane=f"core:{name}", state="CORE_REASONING")
        await self.hand.call("REPORT_STATUS", report)
        await self.may_answer.wait()
        result: Any = {"text": self.answer(message.text)}
        self.hand.add(CoreStopped(**job, outcome="completed", result=result), f"core:{name}")
        await self.hand.flush()

    async def _reply(self, message: UserMessageSignal, text: str) -> None:
        lane = f"edge:{message.dm}" if message.dm != "console" else "edge"
        for end in (len(text) // 3, 2 * len(text) // 3):
            draft = ReplyDraft(read_rev=self.hand.head.rev, text=text[:end])
            report = StatusRequest(lane=lane, state="EDGE_REASONING", draft=draft)
            await self.hand.call("REPORT_STATUS", report)
            await asyncio.sleep(DRAFT_PAUSE_S)
        turn = message.inbox_id
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "cached_tokens": 5}
        output = {"turn_id": turn, "text": text, "model": "scripted", "finish_reason": "stop"}
        self.hand.add(ModelOutput(**output, **usage), lane)  # type: ignore[arg-type]
        reply = {"turn_id": turn, "dm": message.dm, "text": text, "answers": turn}
        self.hand.add(Reply(**reply, kind=self.kind), lane)  # type: ignore[arg-type]
        await self.hand.flush()


@dataclass
class OpenAIWorld:
    """A choird, its agent `main`, and what clients need."""

    world: World
    agent: ScriptedAgent

    async def add_client(self, name: str, **more: Any) -> str:
        """Add a client; return its token, once its conversations are bound."""
        answer = await self.world.post("/v1/clients", json={"name": name, **more})
        assert answer.status_code == 201, answer.text
        added = answer.json()
        if f"api.{name}.main" in added["client"]["conversations"]:
            await self._until_bound(f"api.{name}.main")
        return str(added["token"])

    async def _until_bound(self, dm: str) -> None:
        async def is_bound() -> bool:
            return bool(
                await self.world.database.fetchval(
                    "SELECT true FROM choir_control.session_conversations WHERE dm = $1", dm
                )
            )

        await until(is_bound)

    def sdk(self, token: str, **more: Any) -> AsyncOpenAI:
        """Return the official client."""
        options = {"max_retries": 0, "timeout": 120, **more}
        return AsyncOpenAI(base_url=f"{self.world.tcp}/openai/v1", api_key=token, **options)

    async def post(self, token: str, body: Any, **headers: str) -> httpx2.Response:
        """Send a chat request as it is."""
        own = {"Authorization": f"Bearer {token}", **headers}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with make_client(self.world.tcp, timeout_s=120) as client:
            return await client.post(CHAT, content=content, headers=own)


def ask(text: str, **more: Any) -> dict[str, Any]:
    """Return a request with one message."""
    return {"model": "main", "messages": [{"role": "user", "content": text}], **more}


@contextlib.asynccontextmanager
async def openai_world(stopped: World, **people: str) -> AsyncIterator[OpenAIWorld]:
    """Start a choird with its console and an answering agent."""
    use_console_only(stopped, **people)
    (stopped.home / "socks").mkdir(exist_ok=True)
    await stopped.start()
    hand = await stopped.agent()
    await hand.begin()
    agent = ScriptedAgent(hand)
    agent.may_answer.set()
    async with running_console(stopped):
        work = asyncio.create_task(agent.run())
        try:
            yield OpenAIWorld(stopped, agent)
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
