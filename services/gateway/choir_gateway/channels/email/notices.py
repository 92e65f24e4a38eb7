"""Combination of notices: those that wait behind each other become one mail. Called by `sender`.

Control delivers one message after the other, so a mail that contains later notices is recorded on disk before
it is sent: a repeated delivery makes the same mail, and the later ones count as delivered.
"""

from collections.abc import Sequence
from itertools import takewhile

from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError
from choir_common.wire.messages import HistoryRequest, OutboundMessage
from choir_gateway.channels.email.message_ids import make_message_id, short_id
from choir_gateway.channels.email.threads import CombinedNotices, ThreadState, ThreadStore

MAX_COMBINED = 50


class NoticeCombiner:
    """Finds the notices that go into one mail."""

    def __init__(self, control: ControlClient, threads: ThreadStore, address: str) -> None:
        self._control = control
        self._threads = threads
        self._address = address

    async def find_others(
        self, message: OutboundMessage, state: ThreadState
    ) -> Sequence[OutboundMessage]:
        """Return the notices to send with a message, and record them."""
        if not _is_plain_notice(message):
            return ()
        request = HistoryRequest(dm=message.dm, after=message.outbox_id, limit=MAX_COMBINED)
        try:
            later = (await self._control.history(request)).messages
        except ChoirError:
            # They are sent one by one then.
            return ()
        key, recorded = self._key(message), state.combined
        if recorded is not None and recorded.first == key:
            return [it for it in later if self._key(it) in recorded.others]
        others = [it for it in takewhile(_is_plain_notice, later) if it.gateway == message.gateway]
        if others:
            await self._threads.set_combined(
                message.dm, CombinedNotices(key, tuple(map(self._key, others)))
            )
        return others

    async def record_delivery(
        self, message: OutboundMessage, others: Sequence[OutboundMessage]
    ) -> None:
        """Record that a mail with other notices was sent."""
        if others:
            keys = tuple(map(self._key, others))
            combined = CombinedNotices(self._key(message), keys, is_sent=True)
            await self._threads.set_combined(message.dm, combined)

    def _key(self, message: OutboundMessage) -> str:
        return short_id(make_message_id(message, self._address))


def _is_plain_notice(message: OutboundMessage) -> bool:
    is_special = message.buttons or message.attachments or message.edits
    return message.kind == "notice" and not is_special
