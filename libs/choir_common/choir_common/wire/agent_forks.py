"""What control and the fork server of its agents tell each other: a packet of JSON each way per agent."""

from choir_common.wire.model import WireModel

MAX_PACKET_BYTES = 128 * 1024
FORK_DESCRIPTORS = 2
"""Sent with a request: the agent's standard input, and its standard output and error."""


class AgentForkRequest(WireModel):
    """An agent to fork."""

    confinement: tuple[str, ...]
    """Options of the confinement (`choir_common.confinement.options`), without a program."""
    environment: dict[str, str]
    """The agent's whole environment."""


class AgentForkReply(WireModel):
    """The agent's process, which is a child of control."""

    pid: int
