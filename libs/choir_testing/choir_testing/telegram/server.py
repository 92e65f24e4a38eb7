"""HTTP server of the fake Bot API, run in the test's own event loop.

Tests enter `run_fake_telegram()` and configure a bot with `base_url`. python-telegram-bot calls it over
loopback; `methods` implements the calls.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import assert_never

import httpx2
import uvicorn
from pydantic import JsonValue
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from choir_common.http.client import make_client
from choir_testing.telegram.accounts import Bot, BotCall, BotRegistry, Chat, Group
from choir_testing.telegram.faults import (
    BotApiError,
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    Fault,
    NoFault,
    TooManyRequests,
)
from choir_testing.telegram.files import MethodCall
from choir_testing.telegram.group import FakeGroup
from choir_testing.telegram.methods import METHODS
from choir_testing.telegram.rate_limits import RateLimits
from choir_testing.telegram.request import read_arguments
from choir_testing.telegram.user import FakeUser
from choir_testing.telegram.webhook import push_updates

DEFAULT_TOKEN = "4200:fake-token"  # noqa: S105  a token only this fake knows


# Methods that add to a chat, which Telegram's rate limits count.
SENDING_METHODS = frozenset(
    name for name in METHODS if name.startswith(("send", "edit")) and name != "sendChatAction"
)


class CutConnection(Response):
    """Start a response and close the connection, so that the client cannot know the outcome."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"1000"), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})


class FakeTelegram:
    """The fake Telegram's interface for tests."""

    def __init__(self, port: int, tasks: asyncio.TaskGroup, client: httpx2.AsyncClient) -> None:
        self._origin = f"http://127.0.0.1:{port}"
        self._directory = BotRegistry()
        self._tasks = tasks
        self._client = client
        self._pushes: list[asyncio.Task[None]] = []
        self.latency_s = 0.0
        """Delay of every call in seconds: the network latency of the real Telegram."""
        self.disconnected = False
        """While set, every connection is cut before the call is run."""

    @property
    def api_url(self) -> str:
        """Replacement for https://api.telegram.org."""
        return self._origin

    @property
    def base_url(self) -> str:
        """python-telegram-bot's `base_url`."""
        return f"{self._origin}/bot"

    @property
    def base_file_url(self) -> str:
        """python-telegram-bot's `base_file_url`."""
        return f"{self._origin}/file/bot"

    def bot(self, token: str = DEFAULT_TOKEN) -> Bot:
        """Return the bot with this token; created on first use."""
        if token not in self._directory.bots:
            username = f"bot_{token.split(':', 1)[0]}"
            made = self._directory.bots[token] = Bot(token, username)
            self._pushes.append(self._tasks.create_task(push_updates(made, self._client)))
        return self._directory.bots[token]

    def renew_token(self, old: str, new: str) -> None:
        """Change a bot's token, as BotFather does: chats and updates stay, the old token gets 401."""
        bot = self._directory.bots.pop(old)
        bot.token = new
        self._directory.bots[new] = bot

    def user(self, user_id: int, token: str = DEFAULT_TOKEN) -> FakeUser:
        """Return a user who has opened a chat with this bot."""
        bot = self.bot(token)
        chat = bot.chats.setdefault(user_id, Chat(user_id, f"Person {user_id}"))
        return FakeUser(bot, chat)

    def group(
        self, chat_id: int, token: str = DEFAULT_TOKEN, topics: Iterable[int] = ()
    ) -> FakeGroup:
        """Return a group that this bot is in."""
        bot = self.bot(token)
        group = bot.groups.setdefault(chat_id, Group(chat_id, f"Group {-chat_id}"))
        group.topics.update(topics)
        return FakeGroup(bot, group)

    def script(self, method: str, *faults: Fault, token: str = DEFAULT_TOKEN) -> None:
        """Let the next calls of a method fail, one fault per call, in this order."""
        self.bot(token).scripts.setdefault(method, []).extend(faults)

    def repeat(self, update_id: int, token: str = DEFAULT_TOKEN) -> None:
        """Deliver an update again, even one the bot has confirmed."""
        self.bot(token).mailbox.repeat(update_id)

    def limit_rate(self, token: str = DEFAULT_TOKEN) -> RateLimits:
        """Reject calls above Telegram's rate limits with 429 from now on; return the counters."""
        traffic = self.bot(token).rate_limits = RateLimits()
        return traffic

    def stop_pushes(self) -> None:
        """Stop the webhook pushes, so that the server can stop."""
        for task in self._pushes:
            task.cancel()

    async def call(self, request: Request) -> Response:
        """Handle one call of the Bot API."""
        await asyncio.sleep(self.latency_s)
        if self.disconnected:
            return CutConnection()
        try:
            bot = self._directory.bot(request.path_params["token"])
            name = request.path_params["method"]
            arguments = await read_arguments(request)
            bot.calls.append(BotCall(name, dict(arguments.values)))
            return await _perform(name, MethodCall(bot, arguments))
        except BotApiError as error:
            return _refusal(error)

    async def download(self, request: Request) -> Response:
        """Return the content of a file."""
        if self.disconnected:
            return CutConnection()
        try:
            bot = self._directory.bot(request.path_params["token"])
        except BotApiError as error:
            return _refusal(error)
        found = bot.files.get(request.path_params["path"].rpartition("/")[2])
        return Response(found[1]) if found else _refusal(BotApiError(404, "Not Found"))


async def _perform(name: str, exchange: MethodCall) -> Response:
    method = METHODS.get(name)
    if method is None:
        raise BotApiError(404, "Not Found: method not found")
    if exchange.bot.rate_limits and name in SENDING_METHODS:
        exchange.bot.rate_limits.count(exchange.arguments.text("chat_id"))
    match exchange.bot.next_fault(name):
        case None | NoFault():
            return _result(await method(exchange))
        case TooManyRequests(seconds):
            raise BotApiError(429, f"Too Many Requests: retry after {seconds}", seconds)
        case ErrorResponse(status, description):
            raise BotApiError(status, description)
        case DisconnectBefore():
            return CutConnection()
        case DisconnectAfter():
            await method(exchange)
            return CutConnection()
        case Delay(seconds):
            await asyncio.sleep(seconds)
            return _result(await method(exchange))
        case other:
            assert_never(other)


def _result(value: JsonValue) -> Response:
    return JSONResponse({"ok": True, "result": value})


def _refusal(error: BotApiError) -> Response:
    body: dict[str, JsonValue] = {
        "ok": False,
        "error_code": error.status,
        "description": error.description,
    }
    if error.retry_after is not None:
        body["parameters"] = {"retry_after": error.retry_after}
    return JSONResponse(body, error.status)


class _QuietServer(uvicorn.Server):
    """A uvicorn server that leaves signal handling to the test runner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def run_fake_telegram() -> AsyncIterator[FakeTelegram]:
    """Run a fake Telegram on a free loopback port until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Inherited by accepted sockets; otherwise each response waits 40 ms for the client's TCP
        # acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with (
            make_client("http://127.0.0.1", timeout_s=5) as client,
            asyncio.TaskGroup() as group,
        ):
            fake = FakeTelegram(listener.getsockname()[1], group, client)
            server = _QuietServer(_configured(fake))
            group.create_task(server.serve(sockets=[listener]))
            try:
                yield fake
            finally:
                fake.stop_pushes()
                server.should_exit = True
                server.force_exit = True  # do not wait for long polls


def _configured(fake: FakeTelegram) -> uvicorn.Config:
    routes = [
        Route("/bot{token}/{method}", fake.call, methods=["GET", "POST"]),
        Route("/file/bot{token}/{path:path}", fake.download),
    ]
    return uvicorn.Config(
        Starlette(routes=routes),
        log_config=None,
        log_level=100,  # cut connections are not worth a log line
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
