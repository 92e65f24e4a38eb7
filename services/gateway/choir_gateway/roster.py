"""Keep the channels that the configuration names: start new ones, end removed ones, hand out words.

Run by app.py; the table comes from control. A delivery goes to the channel of its gateway.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

import structlog

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.control import ControlInbox
from choir_common.errors import ChoirError, NotFound, Unavailable
from choir_common.wire.activity import DmActivity
from choir_common.wire.configuring import BotTokens
from choir_common.wire.messages import (
    ChannelTable,
    DmBinding,
    GatewayBinding,
    OutboundMessage,
    Receipt,
)
from choir_common.wire.operator import PartStatus
from choir_gateway.channels import lazily
from choir_gateway.channels.console.hub import ConsoleHub
from choir_gateway.channels.port import Bot, Contacts

log = structlog.get_logger("choir.gateway")

# a configuration change is published as well; this finds it when the publication was missed
READ_AGAIN_S = 5.0
RETRY_S = 0.2


class Roster:
    """The running channels, by gateway name."""

    def __init__(self, control: ControlInbox, hub: ConsoleHub, secrets: Mapping[str, str]) -> None:
        self._control = control
        self._hub = hub
        self._tokens = dict(secrets)
        self._tokens_version = 0
        self._in_use: dict[str, str] = {}
        self._table: ChannelTable | None = None
        self._contacts = Contacts()
        self._bots: dict[str, Bot] = {}
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._missing: dict[str, str] = {}
        self._away = ""
        self._changed = asyncio.Event()

    async def run(self, bus: Bus) -> None:
        """Follow the configuration until cancelled."""

        async def on_change() -> None:
            self._changed.set()

        await bus.follow(subjects.channels_changed(), on_change)
        async with asyncio.TaskGroup() as tasks:
            while True:
                wait_s = await self._refresh(tasks)
                self._changed.clear()
                try:
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    def take_tokens(self, parcel: BotTokens) -> None:
        """Take over the bots' tokens; bots whose token is another one now begin anew."""
        self._tokens, self._tokens_version = dict(parcel.tokens), parcel.version
        self._changed.set()

    async def deliver(self, message: OutboundMessage) -> Receipt:
        """Hand words to the channel of their gateway.

        Raises NotFound when the DM is not configured, and what the channel raises.
        """
        binding = self._dm(message.dm)
        bot = self._bots.get(binding.gateway)
        if bot is not None:
            return await bot.deliver(message, binding.user_id)
        if binding.gateway in self._missing:
            raise Unavailable(self._missing[binding.gateway])
        return await self._hub.deliver(message)

    async def show(self, activity: DmActivity) -> None:
        """Show what goes on in a DM, where its channel can."""
        if self._contacts.by_name.get(activity.dm) is not None and self._is_console(activity.dm):
            self._hub.show(activity)

    async def open_file(self, gateway: str, ref: str) -> AsyncIterator[bytes]:
        """Give the bytes of what a user sent. Raises NotFound when the channel has it no more."""
        binding = self._gateways().get(gateway)
        if binding is None or binding.type != "console":
            raise NotFound(f"The gateway {gateway[:64]!r} keeps no files.")
        return await self._hub.spool.open_taken(ref)

    def gateway_of(self, dm: str) -> str:
        """Return the gateway a DM is on."""
        return self._dm(dm).gateway

    def user_of(self, dm: str) -> str:
        """Return the user a DM belongs to."""
        return self._dm(dm).user_id

    def console_dm(self, dm: str) -> None:
        """Check that a DM is on the console.

        Raises NotFound otherwise: a Telegram user's DM is not for this door.
        """
        if not self._is_console(dm):
            raise NotFound(f"The DM {dm!r} is not on a console gateway.")

    def state(self) -> Sequence[PartStatus]:
        """Return whether control is there, who takes everybody's words, and how each channel stands.

        A bot in trouble is told, and does not make the gateway unready: the console and the other bots
        work, and a stack must start where Telegram cannot be reached.
        """
        if self._table is None:
            return (PartStatus(name="channels", ok=False, detail="Control has not told them yet."),)
        control = PartStatus(name="control", ok=not self._away, detail=self._away)
        missing = [
            PartStatus(name=name, ok=True, detail=why) for name, why in self._missing.items()
        ]
        return (control, *missing, *(bot.state() for bot in self._bots.values()))

    def _is_console(self, dm: str) -> bool:
        gateway = self._gateways().get(self._dm(dm).gateway)
        return gateway is not None and gateway.type == "console"

    def _dm(self, name: str) -> DmBinding:
        if self._table is None:
            raise Unavailable("The gateway is starting; control has not told it the DMs yet.")
        found = self._contacts.by_name.get(name)
        if found is None:
            known = ", ".join(sorted(self._contacts.by_name)) or "none"
            raise NotFound(f"There is no DM {name[:64]!r}. Configured: {known}.")
        return found

    def _gateways(self) -> dict[str, GatewayBinding]:
        return {gateway.name: gateway for gateway in self._table.gateways} if self._table else {}

    async def _refresh(self, tasks: asyncio.TaskGroup) -> float:
        try:
            table = await self._control.channels(self._tokens_version)
        except ChoirError as error:
            if self._table is None:
                log.info("waiting for control", reason=error.message)
            self._away = f"No words are taken until control answers: {error.message}"
            return RETRY_S if self._table is None else READ_AGAIN_S
        self._away = ""
        if table != self._table or self._tokens_are_new():
            await self._apply(table, tasks)
        return READ_AGAIN_S

    def _tokens_are_new(self) -> bool:
        """Tell whether a bot runs on another token than it should, or waits for one that is there."""
        return any(
            self._tokens.get(g.secret or "") != self._in_use.get(name)
            for name, g in self._gateways().items()
            if g.type == "telegram"
        )

    async def _apply(self, table: ChannelTable, tasks: asyncio.TaskGroup) -> None:
        before = self._gateways()
        self._table = table
        self._contacts.replace(table.dms)
        wanted = {g.name: g for g in table.gateways if g.type == "telegram"}
        for name in list(self._bots):
            now = wanted.get(name)
            same_token = now and self._tokens.get(now.secret or "") == self._in_use[name]
            if before.get(name) != now or not same_token:
                await self._end(name)
        self._missing = {}
        for name, gateway in wanted.items():
            if name not in self._bots:
                self._begin(gateway, tasks)
        log.info("channels", gateways=sorted(self._gateways()), dms=len(table.dms))

    def _begin(self, gateway: GatewayBinding, tasks: asyncio.TaskGroup) -> None:
        token = self._tokens.get(gateway.secret or "")
        if token is None:
            self._missing[gateway.name] = (
                f"The bot {gateway.name!r} has no token: `choirctl secret set "
                f"{gateway.secret}`, then `choirctl secret apply`."
            )
            log.error("bot without a token", gateway=gateway.name, secret=gateway.secret)
            return
        bot = lazily.make_bot(gateway, token, self._control, self._contacts)
        self._bots[gateway.name] = bot
        self._in_use[gateway.name] = token
        self._polls[gateway.name] = tasks.create_task(bot.run(), name=f"bot {gateway.name}")

    async def _end(self, name: str) -> None:
        del self._bots[name], self._in_use[name]
        poll = self._polls.pop(name)
        poll.cancel()
        await asyncio.wait([poll])
