"""Connections that a tool call made through the egress proxy: one entry for each host and decision."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.model import WireModel

ConnectionDecision = Literal["allowed", "refused", "new_host", "failed"]
"""`new_host`: refused, because nobody has named the host or agreed to it; `refused`: for another reason;
`failed`: permitted, but the server did not answer."""
MAX_CONNECTED_HOSTS = 50
"""Entries of one call; the connections of further hosts are in the log of the egress service."""


class HostConnections(WireModel):
    """The connections of a call to one host, with one decision."""

    host: Annotated[str, StringConstraints(max_length=300)]
    port: int
    decision: ConnectionDecision
    connections: int = 1
    bytes_up: int = 0
    bytes_down: int = 0


class CallConnections(WireModel):
    """The connections of one call."""

    hosts: tuple[HostConnections, ...] = Field(default=(), max_length=MAX_CONNECTED_HOSTS)
