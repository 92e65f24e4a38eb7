"""Provider-specific fields of an assistant message; part of `events`."""

from pydantic import Field

from choir_common.wire.model import JsonObject, WireModel


class ProviderFields(WireModel):
    """Fields of one assistant message that only the model that sent them can read.

    Examples are reasoning text and signatures: `reasoning_content`, `reasoning_details`, `extra_content`.
    They are sent back unchanged to that model, and to no other.
    """

    origin: str
    """The model that sent them: its name and endpoint."""
    message: JsonObject = Field(default_factory=dict)
    """Fields of the message."""
    calls: tuple[JsonObject, ...] = ()
    """Fields of each tool call, in the order of `tool_calls`, including the provider's own id."""
