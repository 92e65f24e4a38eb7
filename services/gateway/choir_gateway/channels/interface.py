"""The interfaces of a channel and its factory, and the directory of the configured conversations."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.wire.activity import DmActivity
from choir_common.wire.messages import (
    ChannelCommand,
    DeliveryReceipt,
    DmBinding,
    GatewayBinding,
    OutboundMessage,
)
from choir_common.wire.model import WireModel
from choir_common.wire.operator import ComponentStatus
from choir_common.wire.telegram import BotAccess, BotIdentity, BotMessages, ReadBotMessages


class Channel(Protocol):
    """A channel with its own task for incoming messages."""

    async def run(self) -> None:
        """Receive messages until cancelled; return if the channel has no connection of its own."""
        ...

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message to a user; raises the errors of `choir_common.clients.gateway`."""
        ...

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Show an agent's activity; returns at once."""
        ...

    def open_file(self, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises as `choir_common.clients.gateway`."""
        ...

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> WireModel | None:
        """Store an update from the channel's webhook; it is durable when this returns the response.

        Raises Unauthorized for a wrong secret or signature, NotFound if the channel has no webhook,
        InvalidRequest, Unavailable.
        """
        ...

    def state(self) -> ComponentStatus | None:
        """Return the state of the channel; None if it has no connection that could fail."""
        ...


@dataclass(frozen=True, slots=True)
class ChannelSecrets:
    """The values of a gateway's secrets, None for those that are not set."""

    token: str | None = field(default=None, repr=False)
    webhook: str | None = field(default=None, repr=False)
    app: str | None = field(default=None, repr=False)
    verification: str | None = field(default=None, repr=False)
    """What a messenger sends to verify the address of its webhook."""


@runtime_checkable
class VerifiedWebhook(Protocol):
    """A channel whose messenger verifies the address of its webhook before it sends updates."""

    def answer_challenge(self, query: Mapping[str, str]) -> str:
        """Return the text that proves to the messenger that the address is Choir's.

        Raises Unauthorized for a wrong token, InvalidRequest.
        """
        ...


@runtime_checkable
class UserRecords(Protocol):
    """A channel that stores something about its users, beside the files of their conversations."""

    async def erase_user(self, user_id: str) -> int:
        """Erase what is stored about a user; return the number of records. Raises Unavailable."""
        ...


class ChannelFactory(Protocol):
    """The factory of the channels of one type."""

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> Channel:
        """Return the channel of a configured gateway; it does not run yet."""
        ...


class BotInspector(Protocol):
    """Access to bots by their tokens, before they are configured.

    All methods raise InvalidRequest for a token that is refused, Conflict if another program receives the
    bot's updates, RateLimited and Unavailable.
    """

    async def identify(self, access: BotAccess) -> BotIdentity:
        """Return the bot of a token."""
        ...

    async def read_messages(self, request: ReadBotMessages) -> BotMessages:
        """Wait for messages to a bot; confirm earlier updates first."""
        ...

    async def remove_webhook(self, access: BotAccess) -> BotIdentity:
        """Let the updates of a bot be polled; none is dropped."""
        ...


class ConversationDirectory:
    """The configured DMs (the allowlist of every channel) and the commands available in them."""

    def __init__(self) -> None:
        self.by_name: dict[str, DmBinding] = {}
        self.commands: tuple[ChannelCommand, ...] = ()

    def replace(self, dms: Sequence[DmBinding], commands: Sequence[ChannelCommand] = ()) -> None:
        """Replace the DMs and commands by those of a new configuration."""
        self.by_name = {dm.name: dm for dm in dms}
        self.commands = tuple(commands)

    def find(self, gateway: str, user_id: str) -> DmBinding | None:
        """Return the DM of a user on a gateway, or None for a stranger."""
        for dm in self.by_name.values():
            if dm.gateway == gateway and dm.user_id and dm.user_id == user_id:
                return dm
        return None

    def find_group(self, gateway: str, chat_id: str, topic: str = "") -> DmBinding | None:
        """Return the DM of a group's topic, or else that of the group; None for others."""
        of_chat = {
            dm.topic: dm
            for dm in self.by_name.values()
            if dm.gateway == gateway and dm.chat_id and dm.chat_id == chat_id
        }
        return of_chat.get(topic) or of_chat.get("")

    def is_group(self, gateway: str, chat_id: str) -> bool:
        """Return whether a chat, or a topic of it, is a configured group."""
        return any(
            dm.gateway == gateway and dm.chat_id and dm.chat_id == chat_id
            for dm in self.by_name.values()
        )

    def has_groups(self, gateway: str) -> bool:
        """Return whether a gateway serves groups."""
        return any(dm.gateway == gateway and dm.chat_id for dm in self.by_name.values())


@dataclass(frozen=True, slots=True)
class ChannelServices:
    """What channels of all types use."""

    control: ControlClient
    files: OutboxFilesClient
    conversations: ConversationDirectory
    directory: Path
    """Where a channel stores how far it has read, and what it must not forget."""

    def of_type(self, name: str) -> "ChannelServices":
        """Return the same with a directory of the channels of one type."""
        return replace(self, directory=self.directory / name)
