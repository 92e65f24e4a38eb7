"""People and their identities in the operator API."""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import AwareTime, Name, WireModel
from choir_common.wire.people_config import PersonRole


class LinkIdentity(WireModel):
    """Give a user of a gateway to a person."""

    gateway: Name
    user: str = Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")


class IdentityView(WireModel):
    """An identity of a person."""

    gateway: str
    user: str
    source: Literal["config", "link", "pairing"]
    """`config`: in `people` of config.json; `link`: linked later; `pairing`: allowed by an admin."""
    dms: tuple[str, ...] = ()
    """Its conversations in config.json."""


class PersonView(WireModel):
    """A person of config.json, or a paired user under the name of the conversation."""

    name: str
    role: PersonRole
    timezone: str | None
    language: str
    identities: tuple[IdentityView, ...]
    user_name: str = ""
    """The name that a paired user chose; it proves nothing."""
    approved_by: str = ""
    """Who allowed a paired user: `operator`, `operator, browser ID` or `dm NAME`."""
    approved_at: AwareTime | None = None
