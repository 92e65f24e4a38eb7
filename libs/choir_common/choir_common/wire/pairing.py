"""Pairing of unknown users: requests of the gateway, and what operators see and decide."""

import base64
import hashlib
import re
import unicodedata

from pydantic import Field

from choir_common.i18n import MAX_TAG
from choir_common.wire.model import AwareTime, Name, WireModel
from choir_common.wire.people_config import PairedRole

USER_PATTERN = r"^[!-~]{1,200}$"
"""Ids of users that can be paired; `CHANNEL_TYPES` says which ones a channel has."""
MAX_GATEWAY_NAME = 31
"""Characters of a gateway's name, so that `paired_dm` is a valid name."""
MAX_USER_NAME = 40
_MAX_READABLE = 15
# What `paired_dm` adds to the name of a gateway: an id without hyphens, or words with a hash.
_PLAIN = re.compile(r"[A-Za-z0-9]{1,32}")
_HASHED = re.compile(r"[a-z0-9][a-z0-9-]{0,14}-[a-z2-7]{16}")


def paired_dm(gateway: str, user_id: str) -> str:
    """Return the name of a paired user's conversation; no two users have the same.

    It is `GATEWAY-USER` for an id of letters and digits. Other ids are longer than a name or have characters
    that a name may not have, so 80 bits of a hash follow their first letters.
    """
    if _PLAIN.fullmatch(user_id):
        return f"{gateway}-{user_id}"
    words = re.sub(r"[^a-z0-9]+", "-", user_id.lower()).strip("-")[:_MAX_READABLE].rstrip("-")
    digest = hashlib.sha256(f"{gateway}\0{user_id}".encode()).digest()[:10]
    return f"{gateway}-{words or 'user'}-{base64.b32encode(digest).decode().lower()}"


def may_be_paired(dm: str, gateway: str, users: re.Pattern[str]) -> bool:
    """Return whether a conversation has a name that `paired_dm` makes for some of a gateway's users."""
    own_part = dm.removeprefix(f"{gateway}-")
    if own_part == dm:
        return False
    is_plain = _PLAIN.fullmatch(own_part) is not None and users.fullmatch(own_part) is not None
    return is_plain or _HASHED.fullmatch(own_part) is not None


def clean_user_name(name: str) -> str:
    """Return the letters, digits, spaces, hyphens and apostrophes of a name that a stranger chose.

    What is left is one short line without markup, links, mentions, and characters that steer a terminal.
    """
    plain = unicodedata.normalize("NFKC", name[: 4 * MAX_USER_NAME])
    characters = "".join(
        it if unicodedata.category(it)[0] in "LMN" or it in "-'" else " " for it in plain
    )
    return " ".join(characters.split())[:MAX_USER_NAME].strip()


class RequestPairing(WireModel):
    """A user who is not configured has written; no text of the message is in it."""

    gateway: Name
    user_id: str = Field(pattern=USER_PATTERN)
    user_name: str = Field(default="", max_length=MAX_USER_NAME)
    """The name that the user chose, from `clean_user_name`."""
    language: str = Field(default="", max_length=MAX_TAG)
    """The language of the user's app as a tag, where the channel says it."""


class PairingOffer(WireModel):
    """What the user is told; None: nothing."""

    text: str | None = None


class DecidePairing(WireModel):
    """Allow the user of a code to talk, or refuse it."""

    code: str = Field(min_length=1, max_length=64)
    allow: bool = True


class PairingView(WireModel):
    """A user who waits for a decision, or about whom was just decided."""

    code: str
    gateway: str
    user: str
    user_name: str
    """Chosen by the user; it proves nothing."""
    dm: str
    """The name of the conversation, once it is allowed."""
    agent: str
    role: PairedRole
    expires_at: AwareTime
