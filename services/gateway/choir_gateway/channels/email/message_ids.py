"""Message-IDs: those of Choir's mail are made from the outbox, and all have a short id for control. Pure."""

import hashlib
import re
import secrets

from choir_common.wire.messages import OutboundMessage

_OWN = re.compile(r"<(choir(?:-ask)?\.(\d{1,18})\.[0-9a-f]{32})@[^<>@\s]+>")
_NOTE = re.compile(r"<choir-note\.[0-9a-f]{32}@[^<>@\s]+>")
_MESSAGE_ID = re.compile(r"<[^<>\s]{1,900}>")
MAX_IDS = 20


def make_message_id(message: OutboundMessage, address: str) -> str:
    """Return the Message-ID of an outbound message: the same message always has the same one.

    It says whether the mail asks, so that an answer to a question that no longer exists is recognised.
    """
    # The time is part of it: a restored database assigns ids a second time.
    key = f"{message.gateway}\0{message.outbox_id}\0{message.at.isoformat()}"
    kind = "choir-ask" if message.buttons else "choir"
    return f"<{kind}.{message.outbox_id}.{_hash(key)}@{_domain(address)}>"


def make_note_id(address: str) -> str:
    """Return a new Message-ID for notes of Choir, which have no id of their own."""
    return f"<choir-note.{secrets.token_hex(16)}@{_domain(address)}>"


def short_id(message_id: str) -> str:
    """Return the id by which control knows a mail: at most 64 characters."""
    own = _OWN.fullmatch(message_id)
    return own[1] if own else f"m.{_hash(message_id)}"


def is_own(message_id: str) -> bool:
    """Return whether a Message-ID has the form of Choir's."""
    return bool(_OWN.fullmatch(message_id) or _NOTE.fullmatch(message_id))


def mentions_own(text: str) -> bool:
    """Return whether a text contains a Message-ID of the form of Choir's."""
    return bool(_OWN.search(text) or _NOTE.search(text))


def is_question(message_id: str) -> bool:
    """Return whether a Message-ID has the form of Choir's questions."""
    return message_id.startswith("<choir-ask.")


def find_outbox_id(message_id: str) -> int | None:
    """Return the outbox id in a Message-ID of Choir."""
    own = _OWN.fullmatch(message_id)
    return int(own[2]) if own else None


def parse_ids(header: str) -> tuple[str, ...]:
    """Return the Message-IDs in a header; the first and the newest of a long list."""
    ids = tuple(dict.fromkeys(_MESSAGE_ID.findall(header)))
    return ids if len(ids) <= MAX_IDS else (ids[0], *ids[1 - MAX_IDS :])


def _hash(text: str) -> str:
    return hashlib.blake2s(text.encode(errors="replace"), digest_size=16).hexdigest()


def _domain(address: str) -> str:
    return address.rpartition("@")[2]
