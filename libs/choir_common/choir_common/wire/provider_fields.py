"""What a provider sends with an assistant message beside its words and calls; part of `events`."""

from pydantic import Field

from choir_common.wire.json import JsonObject
from choir_common.wire.model import Wire


class ProviderFields(Wire):
    """Fields of one assistant message that only the model that sent them can read.

    Reasoning text, signatures and the like: `reasoning_content`, `reasoning_details`, `extra_content`.
    They go back verbatim to that model, and to no other.
    """

    origin: str
    """The model that sent them: its name and endpoint."""
    message: JsonObject = Field(default_factory=dict)
    """Fields of the message."""
    calls: tuple[JsonObject, ...] = ()
    """Fields of each tool call, in the order of `tool_calls`: the provider's own id among them."""
