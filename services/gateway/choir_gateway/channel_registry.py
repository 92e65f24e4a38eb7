"""The running channels: starts new ones, stops removed ones, and routes deliveries to them.

The list of gateways comes from control. A delivery goes to the channel of its gateway.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import structlog

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError, NotFound, Unavailable
from choir_common.i18n import _
from choir_common.wire.activity import DmActivity
from choir_common.wire.config_api import BotTokens
from choir_common.wire.messages import (
    ChannelTable,
    DeliveryReceipt,
    DmBinding,
    GatewayBinding,
    OutboundMessage,
)
from choir_common.wire.model import WireModel
from choir_common.wire.operator import ComponentStatus
from choir_gateway.channels.interface import (
    Channel,
    ChannelFactory,
    ChannelSecrets,
    ConversationDirectory,
    UserRecords,
    VerifiedWebhook,
)

log = structlog.get_logger("choir.gateway")

# Control also publishes configuration changes; this finds a change that was missed.
REFRESH_INTERVAL_S = 5.0
RENEWAL_INTERVAL_S = 1.0
"""Seconds between two requests of gateways that share the channels."""
RETRY_S = 0.2
FINISH_WITHIN_S = 2.0


class WorkSwitch(Protocol):
    """What this process does only while it works, and not as a standby; both methods may be repeated."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


class ChannelRegistry:
    """Registry of the running channels, by gateway name."""

    def __init__(
        self,
        *,
        control: ControlClient,
        conversations: ConversationDirectory,
        factories: Mapping[str, ChannelFactory],
        secrets: Mapping[str, str],
    ) -> None:
        self._control = control
        self._conversations = conversations
        self._factories = factories
        self._tokens = dict(secrets)
        self._tokens_version = 0
        self._secrets_in_use: dict[str, ChannelSecrets] = {}
        self._table: ChannelTable | None = None
        self._channels: dict[str, Channel] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._missing: dict[str, str] = {}
        self._control_error = ""
        self._changed = asyncio.Event()
        self._works_until: float | None = None
        """End of the lease on the event loop's clock; None without a lease."""
        self._deliveries: set[asyncio.Event] = set()
        self.is_standby = False
        """Whether another gateway works."""

    async def run(self, bus: Bus, switch: WorkSwitch | None = None) -> None:
        """Follow the configuration until cancelled; work only while control permits it."""

        async def on_change() -> None:
            self._changed.set()

        await bus.subscribe(subjects.channels_changed(), on_change)
        await bus.subscribe_events(subjects.dm_activity(), DmActivity, self._show)
        async with asyncio.TaskGroup() as tasks:
            while True:
                # before the refresh: its answer may not contain a change that comes meanwhile
                self._changed.clear()
                wait_s = await self._refresh(tasks, switch)
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
        if self._works_until is not None and _now() >= self._works_until:
            raise Unavailable(_("The lease of this gateway has ended."))  # while it was paused
        end = asyncio.Event()
        self._deliveries.add(end)
        try:
            return await self._channel(binding.gateway).deliver(message, binding.address)
        finally:
            self._deliveries.discard(end)
            end.set()

    async def finish_deliveries(self) -> None:
        """Wait a moment until the deliveries in progress have ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_WITHIN_S):
                for end in list(self._deliveries):
                    await end.wait()

    def open_file(
        self, gateway: str, ref: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent over a gateway.

        Raises NotFound for an unknown gateway, and the errors of the channel.
        """
        return self._channel(gateway).open_file(ref)

    async def store_update(
        self, gateway: str, body: bytes, headers: Mapping[str, str]
    ) -> WireModel | None:
        """Store an update that a messenger sent to a gateway's webhook; return the response.

        Raises NotFound for an unknown gateway, and the errors of the channel.
        """
        return await self._channel(gateway).take_update(body, headers)

    def answer_challenge(self, gateway: str, query: Mapping[str, str]) -> str:
        """Return the response to the verification of a gateway's webhook.

        Raises NotFound if its messenger verifies none, and the errors of the channel.
        """
        channel = self._channel(gateway)
        if not isinstance(channel, VerifiedWebhook):
            raise NotFound(
                _("There is no webhook to verify on gateway {gateway!r}.").format(
                    gateway=gateway[:64]
                )
            )
        return channel.answer_challenge(query)

    async def erase_user(self, gateway: str, user_id: str) -> int:
        """Erase what a channel has stored about a user; return the number of records.

        Raises Unavailable if that cannot be done while the channel does not run.
        """
        if self._table is None:
            raise Unavailable(_("The gateway is starting. Ask again in a moment."))
        channel = self._channels.get(gateway)
        if channel is None:
            binding = self._gateways().get(gateway)
            if binding is None or not binding.channel.keeps_user_records:
                return 0
            reason = self._missing.get(gateway, _("It does not run."))
            raise Unavailable(
                _("The records of {gateway!r} about the user cannot be erased. {reason}").format(
                    gateway=gateway, reason=reason
                )
            )
        return await channel.erase_user(user_id) if isinstance(channel, UserRecords) else 0

    def gateway_of(self, dm: str) -> str:
        """Return the gateway of a DM."""
        return self._dm(dm).gateway

    def user_of(self, dm: str) -> str:
        """Return the user id of a DM."""
        return self._dm(dm).user_id

    def require_console_dm(self, dm: str) -> None:
        """Check that a DM belongs to the console.

        Raises NotFound otherwise: the DMs of other channels must not be reachable over the console's
        routes.
        """
        gateway = self._gateways().get(self._dm(dm).gateway)
        if gateway is None or not gateway.channel.uses_choir_api:
            raise NotFound(_("The DM {dm!r} is not on a console gateway.").format(dm=dm))

    def state(self) -> Sequence[ComponentStatus]:
        """Return the state of the connection to control and of each channel.

        A failing bot is reported but does not make the gateway unready. The console and the other
        bots work, and the stack must start even if Telegram cannot be reached.
        """
        if self.is_standby:
            detail = _("Standby: another gateway works.")
            return (ComponentStatus(name="channels", ok=True, detail=detail),)
        if self._table is None:
            return (
                ComponentStatus(
                    name="channels", ok=False, detail=_("Control has not sent the channels yet.")
                ),
            )
        control = ComponentStatus(
            name="control", ok=not self._control_error, detail=self._control_error
        )
        missing = [
            ComponentStatus(name=name, ok=True, detail=why) for name, why in self._missing.items()
        ]
        states = (channel.state() for channel in self._channels.values())
        return (control, *missing, *(state for state in states if state is not None))

    async def _show(self, activity: DmActivity) -> None:
        dm = self._conversations.by_name.get(activity.dm)
        channel = self._channels.get(dm.gateway) if dm else None
        if dm is not None and channel is not None:
            channel.show(activity, dm.address)

    def _channel(self, gateway: str) -> Channel:
        if gateway in self._missing:
            raise Unavailable(self._missing[gateway])
        channel = self._channels.get(gateway)
        if channel is None:
            raise NotFound(_("There is no gateway {gateway!r}.").format(gateway=gateway[:64]))
        return channel

    def _secrets(self, gateway: GatewayBinding) -> ChannelSecrets:
        token = self._tokens.get(gateway.secret or "")
        if (number := gateway.whatsapp) is not None:
            return ChannelSecrets(
                token,
                self._tokens.get(number.app_secret),
                verification=self._tokens.get(number.verify_secret),
            )
        webhook = self._tokens.get(gateway.webhook.secret) if gateway.webhook else None
        app = self._tokens.get(gateway.app_secret) if gateway.app_secret else None
        return ChannelSecrets(token, webhook, app)

    def _dm(self, name: str) -> DmBinding:
        if self._table is None:
            raise Unavailable(
                _("The gateway is starting and has not received the DMs from control yet.")
            )
        dm = self._conversations.by_name.get(name)
        if dm is None:
            names = ", ".join(sorted(self._conversations.by_name)) or _("none")
            raise NotFound(
                _("There is no DM {name!r}. Configured: {names}.").format(
                    name=name[:64], names=names
                )
            )
        return dm

    def _gateways(self) -> dict[str, GatewayBinding]:
        return {gateway.name: gateway for gateway in self._table.gateways} if self._table else {}

    async def _refresh(self, tasks: asyncio.TaskGroup, switch: WorkSwitch | None) -> float:
        """Read the channels and renew the lease; return the seconds until the next time."""
        asked_at = _now()
        try:
            async with asyncio.timeout_at(self._works_until):
                table = await self._control.channels(self._tokens_version)
        except TimeoutError:
            await self._stand_by(switch, _("the lease was not renewed"))
            return RETRY_S
        except ChoirError as error:
            if self._table is None:
                log.info("waiting for control", error=error.message)
            self._control_error = _(
                "Messages are not accepted until control responds: {message}"
            ).format(message=error.message)
            if self._works_until is not None:
                return max(0.0, min(RENEWAL_INTERVAL_S, self._works_until - _now()))
            return RETRY_S if self._table is None else REFRESH_INTERVAL_S
        self._control_error = ""
        if table.standby:
            await self._stand_by(switch, _("another gateway works"))
            return RENEWAL_INTERVAL_S
        self._works_until = asked_at + table.lease_s if table.lease_s else None
        table = table.model_copy(update={"lease_s": 0.0})  # no part of the configuration
        if switch is not None:
            await switch.open()
        self.is_standby = False
        if table != self._table or self._tokens_are_new():
            await self._apply(table, tasks)
        return REFRESH_INTERVAL_S if self._works_until is None else RENEWAL_INTERVAL_S

    async def _stand_by(self, switch: WorkSwitch | None, reason: str) -> None:
        """Stop all channels: another gateway may run them."""
        if not self.is_standby:
            log.info("standing by", reason=reason)
        self.is_standby, self._works_until, self._table = True, None, None
        if switch is not None:
            await switch.close()
        for name in list(self._channels):
            await self._stop_channel(name)

    def _tokens_are_new(self) -> bool:
        """Return True if a channel runs with old secrets, or waits for secrets that are now available."""
        return any(
            self._secrets(gateway) != self._secrets_in_use.get(name, ChannelSecrets())
            for name, gateway in self._gateways().items()
        )

    async def _apply(self, table: ChannelTable, tasks: asyncio.TaskGroup) -> None:
        before = self._gateways()
        self._table = table
        self._conversations.replace(table.dms, table.commands)
        gateways = self._gateways()
        for name in list(self._channels):
            gateway = gateways.get(name)
            if (
                gateway is None
                or gateway != before.get(name)
                or self._secrets(gateway) != self._secrets_in_use[name]
            ):
                await self._stop_channel(name)
        self._missing = {}
        for name, gateway in gateways.items():
            if name not in self._channels:
                self._start_channel(gateway, tasks)
        log.info("channels configured", gateways=sorted(self._gateways()), dms=len(table.dms))

    def _start_channel(self, gateway: GatewayBinding, tasks: asyncio.TaskGroup) -> None:
        secrets = self._secrets_in_use[gateway.name] = self._secrets(gateway)
        needs_token = gateway.channel.needs_token and secrets.token is None
        absent = gateway.secret if needs_token else None
        if gateway.webhook is not None and secrets.webhook is None:
            absent = absent or gateway.webhook.secret
        if gateway.app_secret is not None and secrets.app is None:
            absent = absent or gateway.app_secret
        if gateway.whatsapp is not None and secrets.webhook is None:
            absent = absent or gateway.whatsapp.app_secret
        if gateway.whatsapp is not None and secrets.verification is None:
            absent = absent or gateway.whatsapp.verify_secret
        if needs_token or absent is not None:
            self._missing[gateway.name] = _(
                "The bot {name!r} lacks a secret: `choirctl secret set {absent}`, then `choirctl secret "
                "apply`."
            ).format(name=gateway.name, absent=absent)
            log.error("bot without a secret", gateway=gateway.name, secret=absent)
            return
        try:
            channel = self._factories[gateway.type].make(gateway, secrets)
        except ValueError as error:
            self._missing[gateway.name] = _("The gateway {name!r} cannot start: {error}").format(
                name=gateway.name, error=error
            )
            log.error("channel not started", gateway=gateway.name, error=str(error))
            return
        self._channels[gateway.name] = channel
        self._tasks[gateway.name] = tasks.create_task(channel.run(), name=f"channel {gateway.name}")

    async def _stop_channel(self, name: str) -> None:
        del self._channels[name], self._secrets_in_use[name]
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait([task])


def _now() -> float:
    return asyncio.get_running_loop().time()
