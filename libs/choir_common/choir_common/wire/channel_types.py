"""The channel types and their properties: one row per type in `CHANNEL_TYPES`.

Configuration, control and choirctl read the properties; the gateway has the factory of each type
(`choir_gateway.channels.factories`). No code compares the name of a type.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticKnownError


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelProperties:
    """Properties of a channel type."""

    label: str
    """The name for users, within a sentence."""
    needs_token: bool
    """Its gateways need a secret with a token."""
    needs_address: bool
    """Its gateways need `api_url`."""
    has_webhook: bool
    """Its gateways may receive updates by webhook."""
    has_reactions: bool
    """Its gateways can put an emoji on a user's message."""
    uses_choir_api: bool
    """Its users connect with a client of Choir's own API, such as choirctl. The client chooses the keys of
    messages."""
    is_idempotent: bool
    """It detects a repeated delivery by the id of the message. Its users download files at any time, so
    delivered copies are kept for a while."""


CHANNEL_TYPES: dict[str, ChannelProperties] = {
    "telegram": ChannelProperties(
        label="Telegram",
        needs_token=True,
        needs_address=False,
        has_webhook=True,
        has_reactions=True,
        uses_choir_api=False,
        is_idempotent=False,
    ),
    "discord": ChannelProperties(
        label="Discord",
        needs_token=True,
        needs_address=False,
        has_webhook=False,
        has_reactions=False,
        uses_choir_api=False,
        is_idempotent=False,
    ),
    "console": ChannelProperties(
        label="the console",
        needs_token=False,
        needs_address=False,
        has_webhook=False,
        has_reactions=False,
        uses_choir_api=True,
        is_idempotent=True,
    ),
    "webhook": ChannelProperties(
        label="a webhook",
        needs_token=True,
        needs_address=True,
        has_webhook=False,
        has_reactions=False,
        uses_choir_api=False,
        is_idempotent=False,
    ),
}


def _check_channel_type(name: str) -> str:
    if name not in CHANNEL_TYPES:
        names = [repr(channel_type) for channel_type in CHANNEL_TYPES]
        expected = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        raise PydanticKnownError("literal_error", {"expected": expected})
    return name


ChannelType = Annotated[
    str,
    AfterValidator(_check_channel_type),
    WithJsonSchema({"type": "string", "enum": list(CHANNEL_TYPES)}),
]
"""The name of a channel type in `CHANNEL_TYPES`."""


AcknowledgementEmoji = Literal["👀", "👍", "👌", "✍", "🫡"]
"""The reactions to choose from, out of those that Telegram allows."""


def types_with_webhook() -> str:
    """Return the names of the channel types that may have a webhook, for an error message."""
    return " or ".join(name for name, it in CHANNEL_TYPES.items() if it.has_webhook)


def types_with_reactions() -> str:
    """Return the names of the channel types that have reactions, for an error message."""
    return " or ".join(name for name, it in CHANNEL_TYPES.items() if it.has_reactions)
