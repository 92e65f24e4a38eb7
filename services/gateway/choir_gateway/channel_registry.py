"""The running channels: starts new ones, stops removed ones, and routes deliveries to them.

Run by `app`; the list of channels comes from control. A delivery goes to the channel of its
gateway.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import structlog

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.errors import ChoirError, NotFound, Unavailable
from choir_common.wire.activity import DmActivity
from choir_common.wire.config_api import BotTokens
from choir_common.wire.messages import (
    ChannelTable,
    DeliveryReceipt,
    DmBinding,
    GatewayBinding,
    OutboundMessage,
)
from choir_common.wire.operator import ComponentStatus
from choir_gateway.channels import factory
from choir_gateway.channels.console.channel import ConsoleChannel
from choir_gateway.channels.interface import Channel, ChannelDependencies, ConversationDirectory

log = structlog.get_logger("choir.gateway")

# Control also publishes configuration changes; this finds a change that was missed.
REFRESH_INTERVAL_S = 5.0
RETRY_S = 0.2

BotSecrets = tuple[str | None, str | None]
"""A bot's token and the secret of its webhook."""


class ChannelRegistry:
    """Registry of the running channels, by gateway name."""

    def __init__(
        self,
        control: ControlClient,
        files: OutboxFilesClient,
        hub: ConsoleChannel,
        secrets: Mapping[str, str],
    ) -> None:
        self._control = control
        self._hub = hub
        self._tokens = dict(secrets)
        self._tokens_version = 0
        self._in_use: dict[str, BotSecrets] = {}
        self._table: ChannelTable | None = None
        self._contacts = ConversationDirectory()
        self._neighbours = ChannelDependencies(control, files, self._contacts)
        self._bots: dict[str, Channel] = {}
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._missing: dict[str, str] = {}
        self._control_error = ""
        self._changed = asyncio.Event()

    async def run(self, bus: Bus) -> None:
        """Follow the configuration until cancelled."""

        async def on_change() -> None:
            self._changed.set()

        await bus.subscribe(subjects.channels_changed(), on_change)
        await bus.subscribe_events(subjects.dm_activity(), DmActivity, self._show)
        async with asyncio.TaskGroup() as tasks:
            while True:
                # before the refresh: its answer may not contain a change that comes meanwhile
                self._changed.clear()
                wait_s = await self._refresh(tasks)
                try:
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    def set_tokens(self, tokens: BotTokens) -> None:
        """Store new bot tokens; bots with a changed token are restarted."""
        self._tokens, self._tokens_version = dict(tokens.tokens), tokens.version
        self._changed.set()

    async def deliver(self, message: OutboundMessage) -> DeliveryReceipt:
        """Deliver a message through the channel of its DM.

        Raises NotFound if the DM is not configured, and the errors of the channel.
        """
        binding = self._dm(message.dm)
        bot = self._bots.get(binding.gateway)
        if bot is not None:
            return await bot.deliver(message, binding.user_id)
        if binding.gateway in self._missing:
            raise Unavailable(self._missing[binding.gateway])
        # All gateways that are not bots are consoles.
        return await self._hub.deliver(message)

    def open_file(
        self, gateway: str, ref: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent over a gateway.

        Raises NotFound for an unknown gateway, and the errors of the channel.
        """
        binding = self._gateways().get(gateway)
        if binding is not None and binding.type == "console":
            return self._hub.open_upload(ref)
        return self._bot(gateway).open_file(ref)

    async def store_update(self, gateway: str, body: bytes, secret: str) -> None:
        """Store an update that Telegram sent to a bot's webhook.

        Raises NotFound for an unknown gateway, and the errors of the channel.
        """
        await self._bot(gateway).take_update(body, secret)

    def gateway_of(self, dm: str) -> str:
        """Return the gateway of a DM."""
        return self._dm(dm).gateway

    def user_of(self, dm: str) -> str:
        """Return the user id of a DM."""
        return self._dm(dm).user_id

    def require_console_dm(self, dm: str) -> None:
        """Check that a DM belongs to the console.

        Raises NotFound otherwise: Telegram users' DMs must not be reachable over the console's
        routes.
        """
        if not self._is_console(dm):
            raise NotFound(f"The DM {dm!r} is not on a console gateway.")

    def state(self) -> Sequence[ComponentStatus]:
        """Return the state of the connection to control and of each channel.

        A failing bot is reported but does not make the gateway unready. The console and the other
        bots work, and the stack must start even if Telegram cannot be reached.
        """
        if self._table is None:
            return (
                ComponentStatus(name="channels", ok=False, detail="Control has not told them yet."),
            )
        control = ComponentStatus(
            name="control", ok=not self._control_error, detail=self._control_error
        )
        missing = [
            ComponentStatus(name=name, ok=True, detail=why) for name, why in self._missing.items()
        ]
        return (control, *missing, *(bot.state() for bot in self._bots.values()))

    async def _show(self, activity: DmActivity) -> None:
        dm = self._contacts.by_name.get(activity.dm)
        bot = self._bots.get(dm.gateway) if dm else None
        if dm is not None and bot is not None:
            bot.show(activity, dm.user_id)
        elif dm is not None and self._is_console(dm.name):
            self._hub.show(activity)

    def _bot(self, gateway: str) -> Channel:
        if gateway in self._missing:
            raise Unavailable(self._missing[gateway])
        bot = self._bots.get(gateway)
        if bot is None:
            raise NotFound(f"There is no bot {gateway[:64]!r} here.")
        return bot

    def _keys(self, gateway: GatewayBinding) -> BotSecrets:
        """Return the secrets of a bot, None for those that are not set."""
        hook = self._tokens.get(gateway.webhook.secret) if gateway.webhook else None
        return self._tokens.get(gateway.secret or ""), hook

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
            self._control_error = f"No words are taken until control answers: {error.message}"
            return RETRY_S if self._table is None else REFRESH_INTERVAL_S
        self._control_error = ""
        if table != self._table or self._tokens_are_new():
            await self._apply(table, tasks)
        return REFRESH_INTERVAL_S

    def _tokens_are_new(self) -> bool:
        """Return True if a bot runs with old secrets, or waits for secrets that are now available."""
        return any(
            self._keys(g) != self._in_use.get(name, (None, None))
            for name, g in self._gateways().items()
            if g.type == "telegram"
        )

    async def _apply(self, table: ChannelTable, tasks: asyncio.TaskGroup) -> None:
        before = self._gateways()
        self._table = table
        self._contacts.replace(table.dms, table.commands)
        wanted = {g.name: g for g in table.gateways if g.type == "telegram"}
        for name in list(self._bots):
            now = wanted.get(name)
            same_keys = now and self._keys(now) == self._in_use[name]
            if before.get(name) != now or not same_keys:
                await self._stop_channel(name)
        self._missing = {}
        for name, gateway in wanted.items():
            if name not in self._bots:
                self._start_channel(gateway, tasks)
        log.info("channels", gateways=sorted(self._gateways()), dms=len(table.dms))

    def _start_channel(self, gateway: GatewayBinding, tasks: asyncio.TaskGroup) -> None:
        token, hook_secret = self._in_use[gateway.name] = self._keys(gateway)
        absent = gateway.secret if token is None else None
        if gateway.webhook is not None and hook_secret is None:
            absent = absent or gateway.webhook.secret
        if token is None or absent is not None:
            self._missing[gateway.name] = (
                f"The bot {gateway.name!r} has no token or webhook secret: `choirctl secret set "
                f"{absent}`, then `choirctl secret apply`."
            )
            log.error("bot without a secret", gateway=gateway.name, secret=absent)
            return
        bot = factory.make_channel(gateway, token, hook_secret, self._neighbours)
        self._bots[gateway.name] = bot
        self._polls[gateway.name] = tasks.create_task(bot.run(), name=f"bot {gateway.name}")

    async def _stop_channel(self, name: str) -> None:
        del self._bots[name], self._in_use[name]
        poll = self._polls.pop(name)
        poll.cancel()
        await asyncio.wait([poll])
