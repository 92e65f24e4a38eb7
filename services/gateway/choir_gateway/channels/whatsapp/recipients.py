"""The users of the configuration as WhatsApp names them: by phone number, or by Meta's id. Pure."""

import re

from choir_common.wire.messages import DmBinding
from choir_common.wire.model import JsonObject
from choir_gateway.channels.interface import ConversationDirectory

PHONE = re.compile(r"[0-9]{1,15}")
META_ID = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,56}")


def is_user_id(user_id: str) -> bool:
    """Return whether WhatsApp could have a user of this id."""
    return bool(PHONE.fullmatch(user_id) or META_ID.fullmatch(user_id))


def address_to(user_id: str) -> JsonObject:
    """Return the fields of a call that address a user."""
    field = "to" if PHONE.fullmatch(user_id) else "recipient"
    return {"recipient_type": "individual", field: user_id}


def find_dm(
    conversations: ConversationDirectory, gateway: str, phone: str, meta_id: str
) -> DmBinding | None:
    """Return the conversation of a user, who may be configured by either id; None for a stranger."""
    for user_id in filter(None, (phone, meta_id)):
        dm = conversations.find(gateway, user_id)
        if dm is not None:
            return dm
    return None
