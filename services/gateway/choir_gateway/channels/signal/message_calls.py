"""The calls that write into a chat: send, edit, reply. Called by `sender` and `activity`."""

import time
from collections import OrderedDict

from choir_common.i18n import _
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.signal.addresses import (
    SignalMessageId,
    hyphenate,
    parse_message_id,
)
from choir_gateway.channels.signal.api_client import OutgoingQuote, OutgoingText, SignalApi
from choir_gateway.channels.signal.files import SignalUpload
from choir_gateway.channels.signal.parts import SignalMessagePart
from choir_gateway.channels.signal.rate_limits import SignalRateLimiter
from choir_gateway.channels.signal.rendering import render
from choir_gateway.channels.signal.state_store import SignalStateStore

MAX_EDITS = 10
"""Signal's apps show at most so many edits of a message."""
MAX_EDIT_AGE_S = 23 * 3600.0
"""Signal's apps edit for a day; a receiver drops later edits."""
MAX_TEXTS, MAX_TEXT = 300, 200


class QuotableTexts:
    """The beginnings of the newest messages, for quotations; in memory only."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()

    def add(self, message_id: str, text: str) -> None:
        """Keep the beginning of a message."""
        self._texts[message_id] = text[:MAX_TEXT]
        while len(self._texts) > MAX_TEXTS:
            self._texts.popitem(last=False)

    def find(self, message_id: str) -> str:
        """Return the beginning of a message; empty if it is not known."""
        return self._texts.get(message_id, "")


class SignalMessageCalls:
    """Calls of one account that write into chats; raise as `SignalApi`."""

    def __init__(self, api: SignalApi, store: SignalStateStore, texts: QuotableTexts) -> None:
        self._api = api
        self._store = store
        self._texts = texts
        self._rate_limiter = SignalRateLimiter()

    async def send(
        self,
        address: str,
        part: SignalMessagePart,
        *,
        deadline: float,
        reply_to: str | None = None,
        file: SignalUpload | None = None,
    ) -> str:
        """Send a message and return its id."""
        rendered = render(part.styled)
        text = OutgoingText(rendered.text, rendered.is_styled, quote=self._make_quote(reply_to))
        await self._rate_limiter.wait(address, deadline)
        timestamp = await self._api.send(address, text, deadline=deadline, file=file)
        return str(SignalMessageId(timestamp))

    async def edit(
        self, address: str, message_id: str, part: SignalMessagePart, *, deadline: float
    ) -> None:
        """Replace the text of an own message.

        Raises RefusedError if it is too old, was edited too often, or is not an own one.
        """
        message = parse_message_id(message_id)
        if message is None or message.author is not None:
            raise RefusedError(_("this is no message of this account"))
        if time.time() - message.timestamp / 1000 > MAX_EDIT_AGE_S:
            raise RefusedError(_("Signal edits messages for one day only"))
        if self._store.count_revisions(message_id) >= MAX_EDITS:
            raise RefusedError(
                _("Signal shows at most {max_edits} edits of a message").format(max_edits=MAX_EDITS)
            )
        latest = parse_message_id(self._store.latest_version(message_id)) or message
        rendered = render(part.styled)
        text = OutgoingText(rendered.text, rendered.is_styled, edits=latest.timestamp)
        await self._rate_limiter.wait(address, deadline)
        timestamp = await self._api.send(address, text, deadline=deadline)
        await self._store.note_revision(str(SignalMessageId(timestamp)), message_id)

    def is_free(self, address: str) -> bool:
        """Return whether a card may be sent or changed now without delaying a reply."""
        return self._rate_limiter.is_free(address)

    def note_card(self, address: str) -> None:
        """Record that a card was sent or changed."""
        self._rate_limiter.note_card(address)

    def _make_quote(self, reply_to: str | None) -> OutgoingQuote | None:
        message = parse_message_id(reply_to)
        if message is None or reply_to is None:
            return None
        author = hyphenate(message.author) if message.author else self._api.number
        return OutgoingQuote(message.timestamp, author, self._texts.find(reply_to))
