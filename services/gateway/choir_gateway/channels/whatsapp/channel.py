"""One WhatsApp business number: receives updates by webhook, sends messages and files."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

import structlog

from choir_common.backoff import Backoff
from choir_common.errors import ChoirError
from choir_common.http.client import make_client
from choir_common.wire.activity import DmActivity
from choir_common.wire.messages import DeliveryReceipt, GatewayBinding, OutboundMessage
from choir_common.wire.operator import ComponentStatus
from choir_gateway.channels.delivery import MultipartSender
from choir_gateway.channels.interface import ChannelServices
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.strangers import StrangerReplies
from choir_gateway.channels.whatsapp.cloud_api import PUBLIC_API, CloudApi, CloudApiError
from choir_gateway.channels.whatsapp.files import download_file
from choir_gateway.channels.whatsapp.journal import MessageJournal
from choir_gateway.channels.whatsapp.parts import MessagePart
from choir_gateway.channels.whatsapp.presence import PresenceDisplay
from choir_gateway.channels.whatsapp.receiver import UpdateReceiver
from choir_gateway.channels.whatsapp.recipients import is_user_id
from choir_gateway.channels.whatsapp.sender import WhatsAppPartSender
from choir_gateway.channels.whatsapp.signature import MetaSignatures
from choir_gateway.channels.whatsapp.statuses import StatusBoard

log = structlog.get_logger("choir.gateway.whatsapp")

FIRST_WAIT_S = 1.0
MAX_WAIT_S = 60.0


class WhatsAppChannel:
    """A number and the parts that handle its traffic."""

    def __init__(
        self,
        name: str,
        *,
        api: CloudApi,
        authenticator: MetaSignatures,
        sender: WhatsAppPartSender,
        delivery: MultipartSender[MessagePart],
        notes: NoteQueue,
        presence: PresenceDisplay,
        strangers: StrangerReplies,
        receiver: UpdateReceiver,
        journal: MessageJournal,
    ) -> None:
        self._name = name
        self._journal = journal
        self._api = api
        self._authenticator = authenticator
        self._sender = sender
        self._delivery = delivery
        self._notes = notes
        self._presence = presence
        self._strangers = strangers
        self._receiver = receiver

    async def run(self) -> None:
        """Show activities and send notes until cancelled; updates arrive by `take_update`."""
        async with self._api.client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._presence.run())
            tasks.create_task(self._notes.run())
            tasks.create_task(self._strangers.run())
            tasks.create_task(self._check())

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message with its files to a user; raises as MultipartSender.deliver does.

        WhatsApp has no edits: what replaces an earlier message refers to it.
        """
        if message.edits is not None:
            changes = {"edits": None, "reply_to": message.edits.message_id}
            message = message.model_copy(update=changes)
        return await self._delivery.deliver(message, user_id)

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Show an agent's activity; returns at once."""
        if is_user_id(user_id):
            self._presence.show(activity, user_id)

    def open_file(self, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises as `download_file` does."""
        return download_file(self._api, ref)

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Store what Meta sends; it is durable when this returns.

        Raises Unauthorized for a wrong signature, InvalidRequest for another body, Unavailable.
        """
        self._authenticator.verify(body, headers)
        await self._receiver.store(body)

    async def erase_user(self, user_id: str) -> int:
        """Erase the journal's lines of a user; return their number. Raises Unavailable."""
        self._sender.waiting.pop(user_id, None)
        return await self._journal.erase_user(user_id)

    def answer_challenge(self, query: Mapping[str, str]) -> str:
        """Return the challenge by which Meta verifies the address. Raises Unauthorized, InvalidRequest."""
        return self._authenticator.answer_challenge(query)

    def state(self) -> ComponentStatus:
        """Return the number's state, with the reason if messages wait or fail."""
        waiting = len(self._sender.waiting)
        blocked = f"Messages to {waiting} user(s) wait until they write (24-hour window)."
        reasons = (self._api.error, self._receiver.error, blocked if waiting else "")
        return ComponentStatus(name=self._name, ok=True, detail=" ".join(filter(None, reasons)))

    async def _check(self) -> None:
        """Call Meta until it accepts the token, so that a wrong one is visible before the first message."""
        backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while self._api.error:
            try:
                await self._api.check()
            except (CloudApiError, ChoirError) as error:
                self._api.error = self._api.error or str(error)
                log.warning("cannot use the number", gateway=self._name, error=str(error))
            except Exception:  # outermost loop of the check: the channel continues
                log.exception("cannot check the number", gateway=self._name)
            if self._api.error:
                await asyncio.sleep(backoff.pause_s())


def make_whatsapp_channel(
    gateway: GatewayBinding,
    *,
    phone_number_id: str,
    token: str,
    authenticator: MetaSignatures,
    services: ChannelServices,
    status_timeout_s: float,
) -> WhatsAppChannel:
    """Return the channel of a configured number."""
    api = _make_api(gateway, phone_number_id, token)
    journal, statuses = MessageJournal(services.directory / f"{gateway.name}.jsonl"), StatusBoard()
    sender = WhatsAppPartSender(
        api,
        journal=journal,
        statuses=statuses,
        files=services.files,
        status_timeout_s=status_timeout_s,
    )
    notes = NoteQueue(delivery := MultipartSender(sender, services.control))
    presence = PresenceDisplay(
        api, sender=sender, journal=journal, control=services.control, emoji=gateway.acknowledgement
    )
    strangers = StrangerReplies(gateway, control=services.control, notes=notes)
    receiver = UpdateReceiver(
        gateway.name,
        phone_number_id,
        control=services.control,
        conversations=services.conversations,
        journal=journal,
        statuses=statuses,
        notes=notes,
        presence=presence,
        strangers=strangers,
        waiting=sender.waiting,
    )
    return WhatsAppChannel(
        gateway.name,
        api=api,
        authenticator=authenticator,
        sender=sender,
        delivery=delivery,
        notes=notes,
        presence=presence,
        strangers=strangers,
        receiver=receiver,
        journal=journal,
    )


def _make_api(gateway: GatewayBinding, phone_number_id: str, token: str) -> CloudApi:
    address = (gateway.api_url or PUBLIC_API).rstrip("/")
    client = make_client(address, headers={"Authorization": f"Bearer {token}"})
    return CloudApi(client, address, phone_number_id)
