"""What a fork server and the process that uses it tell each other: a packet of JSON each way per fork."""

from choir_common.wire.model import WireModel

MAX_PACKET_BYTES = 128 * 1024
MAX_DESCRIPTORS = 16


class AgentForkRequest(WireModel):
    """An agent to fork; the descriptors are its standard input, and its standard output and error."""

    confinement: tuple[str, ...]
    """Options of the confinement (`choir_common.confinement.options`), without a program."""
    environment: dict[str, str]
    """The agent's whole environment."""


class ServiceForkRequest(WireModel):
    """A service to fork; the descriptors are those of an agent, and then those of `numbers`."""

    module: str
    """The package whose `__main__` is run."""
    arguments: tuple[str, ...]
    environment: dict[str, str]
    """The service's whole environment."""
    directory: str
    """Where it starts."""
    numbers: tuple[int, ...]
    """Numbers that the further descriptors get, because `arguments` name them."""
    parent: int
    """The process that becomes its parent."""
    death_signal: int
    """Sent by the kernel when the parent dies."""


class ForkReply(WireModel):
    """The new process, which is a child of the one that asked."""

    pid: int
