"""The section `people` of config.json."""

from typing import Literal

from pydantic import Field

from choir_common.wire.config_parts import TimeZone
from choir_common.wire.model import Name, WireModel

PersonRole = Literal["owner", "admin", "member", "guest"]
PairedRole = Literal["member", "guest"]
"""The roles of users who were allowed in a conversation; neither decides on anything."""
DECIDING_ROLES: frozenset[PersonRole] = frozenset({"owner", "admin"})
"""Roles whose words decide on approvals and budgets."""
"""`owner` and `admin` decide and administer; `member` talks and sees what is its own; `guest` only talks."""


class IdentityConfig(WireModel):
    """One user of a gateway who is this person."""

    gateway: Name
    """A name in `gateways`."""
    user: str = Field(min_length=1, max_length=200)
    """The user's id on that channel, as in `dms.NAME.user_id`."""


class PersonConfig(WireModel):
    """A person with identities on channels; without `people`, `dms.NAME.admin` alone decides on rights."""

    role: PersonRole = "member"
    """What the person may do in all conversations; it takes precedence over `dms.NAME.admin`."""
    timezone: TimeZone | None = None
    """The person's time zone (IANA name); `dms.NAME.timezone` takes precedence."""
    language: str = Field(default="", max_length=35)
    """The language that the person prefers, as a tag such as `de` or `pt-BR`."""
    identities: tuple[IdentityConfig, ...] = ()
    """The person's users. `/link` adds others without a change of this file."""


class AgentConversation(WireModel):
    """A conversation that an agent serves."""

    name: Name
    person: str = ""
    """The only person who talks there; empty if that is not known, or if there are several."""
