"""The channel types and their properties: one row per type in `CHANNEL_TYPES`.

Configuration, control and choirctl read the properties; the gateway has the factory of each type
(`choir_gateway.channels.factories`). No code compares the name of a type.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticKnownError

from choir_common.i18n import _


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupIds:
    """The ids of groups on one type of channel."""

    group: re.Pattern[str]
    topic: re.Pattern[str]
    group_text: str
    """What a group's id is, for the fault of a wrong one."""
    topic_text: str
    """As `group_text`, for topics."""
    are_never_users: bool = False
    """No user has such an id, so a `user_id` of this form is a mistake."""


_TELEGRAM_GROUPS = GroupIds(
    group=re.compile(r"-[0-9]{1,19}"),
    topic=re.compile(r"[1-9][0-9]{0,18}"),
    group_text=_("a group's id, such as -1001234567890"),
    topic_text=_("a topic's id, which is a number"),
)
_SLACK_GROUPS = GroupIds(
    group=re.compile(r"[CG][A-Z0-9]{1,31}"),
    topic=re.compile(r"[0-9]{1,12}\.[0-9]{1,9}"),
    group_text=_("a channel's id, such as C012AB3CD"),
    topic_text=_("a thread's id, which is the ts of its first message, such as 1700000000.000100"),
    are_never_users=True,
)
_DISCORD_GROUPS = GroupIds(
    group=re.compile(r"[1-9][0-9]{14,19}"),
    topic=re.compile(r"[1-9][0-9]{14,19}"),
    group_text=_("a channel's id, such as 1234567890123456789"),
    topic_text=_("a thread's id, such as 1234567890123456789"),
)
_SIGNAL_GROUPS = GroupIds(
    group=re.compile(r"group\.[A-Za-z0-9+/]{59}="),
    topic=re.compile(r"(?!)"),
    group_text=_("a group's id, which is `group.` and 60 characters"),
    topic_text=_("possible: Signal's groups have no topics; remove it"),
    are_never_users=True,
)
_MATRIX_GROUPS = GroupIds(
    group=re.compile(r"![^\s/]{1,254}"),
    topic=re.compile(r"\$\S{1,254}"),
    group_text=_("a room's id, such as !abc:example.org"),
    topic_text=_("a thread's id, which is that of its first message and begins with $"),
    are_never_users=True,
)
_PLAIN_USERS = re.compile(r"[A-Za-z0-9]{1,32}")
# Addresses with other characters exist, but an admin reads them in a notice and an operator types them.
_MAIL_USERS = re.compile(
    r"(?=.{1,200}$)[a-z0-9][a-z0-9._+-]{0,63}@[a-z0-9-]+(?:\.[a-z0-9-]+)+",
)
_MATRIX_USERS = re.compile(
    r"(?=.{1,200}$)@[A-Za-z0-9._=/+-]+:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::[0-9]{1,5})?"
)
_WHATSAPP_USERS = re.compile(r"[0-9]{1,15}|[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,56}")


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
    groups: GroupIds | None = None
    """The ids of its groups, if its gateways can serve groups."""
    needs_app_token: bool = False
    """Its gateways need a second secret, with an app-level token."""
    needs_mailbox: bool = False
    """Its gateways need `email`, and the ids of its users are mail addresses."""
    needs_whatsapp: bool = False
    """Its gateways need the section `whatsapp`."""
    needs_signal: bool = False
    """Its gateways need the section `signal`."""
    keeps_user_records: bool = False
    """It stores something about its users that an erasure must reach."""
    paired_users: re.Pattern[str] | None = None
    """The ids of the users who can get a pairing code, if its gateways give some."""

    @property
    def has_groups(self) -> bool:
        """Return whether its gateways can serve groups."""
        return self.groups is not None

    @property
    def has_pairing(self) -> bool:
        """Return whether unknown users can get a pairing code."""
        return self.paired_users is not None


CHANNEL_TYPES: dict[str, ChannelProperties] = {
    "telegram": ChannelProperties(
        label="Telegram",
        needs_token=True,
        needs_address=False,
        groups=_TELEGRAM_GROUPS,
        has_webhook=True,
        has_reactions=True,
        uses_choir_api=False,
        is_idempotent=False,
        paired_users=_PLAIN_USERS,
    ),
    "discord": ChannelProperties(
        label="Discord",
        needs_token=True,
        needs_address=False,
        groups=_DISCORD_GROUPS,
        has_webhook=False,
        has_reactions=False,
        uses_choir_api=False,
        is_idempotent=False,
        paired_users=_PLAIN_USERS,
    ),
    "slack": ChannelProperties(
        label="Slack",
        needs_token=True,
        needs_address=False,
        groups=_SLACK_GROUPS,
        has_webhook=False,
        has_reactions=True,
        uses_choir_api=False,
        is_idempotent=False,
        needs_app_token=True,
        paired_users=_PLAIN_USERS,
    ),
    "matrix": ChannelProperties(
        label="Matrix",
        needs_token=True,
        needs_address=True,
        has_webhook=False,
        has_reactions=True,
        uses_choir_api=False,
        is_idempotent=False,
        paired_users=_MATRIX_USERS,
        groups=_MATRIX_GROUPS,
        keeps_user_records=True,
    ),
    "email": ChannelProperties(
        label="e-mail",
        needs_token=True,
        needs_address=False,
        has_webhook=False,
        has_reactions=False,
        uses_choir_api=False,
        # A repeated mail has the same Message-ID, by which only some mail programs hide it.
        is_idempotent=False,
        needs_mailbox=True,
        paired_users=_MAIL_USERS,
    ),
    "whatsapp": ChannelProperties(
        label="WhatsApp",
        needs_token=True,
        needs_address=False,
        has_webhook=False,
        has_reactions=True,
        uses_choir_api=False,
        is_idempotent=False,
        needs_whatsapp=True,
        keeps_user_records=True,
        paired_users=_WHATSAPP_USERS,
    ),
    "signal": ChannelProperties(
        label="Signal",
        # signal-cli-rest-api has no access control of its own; a secret is for a proxy before it.
        needs_token=False,
        needs_address=True,
        groups=_SIGNAL_GROUPS,
        has_webhook=False,
        has_reactions=True,
        uses_choir_api=False,
        is_idempotent=False,
        needs_signal=True,
        keeps_user_records=True,
        paired_users=_PLAIN_USERS,
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


def types_with_groups() -> str:
    """Return the names of the channel types that have groups, for an error message."""
    return " or ".join(name for name, it in CHANNEL_TYPES.items() if it.has_groups)


def types_with_app_token() -> str:
    """Return the names of the channel types that need an app-level token, for an error message."""
    return " or ".join(name for name, it in CHANNEL_TYPES.items() if it.needs_app_token)
