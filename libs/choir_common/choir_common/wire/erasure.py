"""Erasure of everything that a person said and received: preview, request and certificate.

It covers one DM, or all DMs of a person in `people`.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from choir_common.wire.model import AwareTime, WireModel

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ErasePerson(WireModel):
    """Erase what the preview with this digest showed."""

    expected_digest: Digest


class ErasedSession(WireModel):
    """A session whose content is erased, with the head of its log; its hashes stay."""

    session_id: str
    agent_id: str
    events: int
    head_hash: str


class PersonErasurePreview(WireModel):
    """What an erasure would remove."""

    dm: str = ""
    """Empty for a person."""
    person: str = ""
    """Empty for a DM."""
    dms: tuple[str, ...]
    digest: Digest
    """Identifies these DMs and sessions."""
    sessions: tuple[ErasedSession, ...]
    places: dict[str, int]
    """Rows with text of the person, by table."""
    running: tuple[str, ...]
    """Agents that are stopped for it, and started again afterwards."""


class ErasureCertificate(WireModel):
    """What was removed. Contains no text of the person."""

    dm: str = ""
    """Empty for a person."""
    person: str = ""
    """Empty for a DM."""
    dms: tuple[str, ...]
    at: AwareTime
    sessions: tuple[ErasedSession, ...]
    removed: dict[str, int]
    """Rows by table, documents of memory, and files and records of users of the gateway."""
    remaining: dict[str, int]
    """Rows that stay, by table: requests whose change is in effect."""
    not_covered: tuple[str, ...]
    """What an erasure does not cover."""
    key_id: str = ""
    """Id of the key of the signature."""
    signature: str = Field(default="", max_length=200)
    """HMAC-SHA-256 with that key over the canonical JSON of the fields above, in hexadecimal."""


class EraseDmFiles(WireModel):
    """Delete the gateway's files of a DM, and what its channel stored about the user."""

    dm: str
    gateway: str = ""
    user_id: str = ""
    """Empty for a group, and for a DM that is not configured any more."""


class DmFilesErased(WireModel):
    """Number of files deleted, and of records of the user in files of the channel."""

    files: int
    records: int = 0
