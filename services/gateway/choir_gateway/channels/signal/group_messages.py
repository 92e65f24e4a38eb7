"""Whose conversation a message belongs to, and which messages of a group are for the agent. Pure."""

from choir_common.wire.messages import DmBinding
from choir_common.wire.speakers import GroupMember
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.signal.addresses import compact_id, hyphenate
from choir_gateway.channels.signal.envelopes import Envelope, SignalContent
from choir_gateway.channels.signal.message_parser import OwnAccount


def find_private_dm(
    envelope: Envelope, author: str, gateway: str, conversations: ConversationDirectory
) -> DmBinding | None:
    """Return the conversation of a person, whose id or phone number is configured."""
    names = (author, hyphenate(author), envelope.source_number or "")
    matches = (conversations.find(gateway, name) for name in names if name)
    return next((dm for dm in matches if dm is not None), None)


def make_member(
    envelope: Envelope, author: str, gateway: str, conversations: ConversationDirectory
) -> GroupMember:
    """Return the author of a group's message; the id is the configured one, or else without hyphens."""
    dm = find_private_dm(envelope, author, gateway, conversations)
    return GroupMember(
        user_id=dm.user_id if dm else author, name=envelope.source_name or "somebody"
    )


def is_addressed(content: SignalContent, me: OwnAccount) -> bool:
    """Return whether a message mentions the account, or replies to a message of it."""
    quote = content.quote
    if quote is not None and me.is_self(quote.author_number, quote.author_uuid):
        return True
    return any(me.is_self(it.number, it.uuid) for it in content.mentions)


def author_of(envelope: Envelope) -> str | None:
    """Return the id of the account that sent an envelope, without hyphens."""
    return compact_id(envelope.source_uuid or "")
