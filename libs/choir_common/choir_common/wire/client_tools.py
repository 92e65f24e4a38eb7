"""Tools that a client of the OpenAI-compatible API offers in its requests, and runs itself.

See docs/openai.md.
"""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import JsonObject, WireModel

LIST_TOOL = "choir.client.tools"
CALL_TOOL = "choir.client.call"
MAX_TOOLS = 128
MAX_RESULT = 60_000
"""Characters."""
NAME_PATTERN = r"^[a-zA-Z0-9_-]{1,64}$"


class ClientTool(WireModel):
    """A tool of a client, in the client's words."""

    name: str = Field(pattern=NAME_PATTERN)
    description: str = Field(default="", max_length=4_000)
    parameters: JsonObject = Field(default_factory=dict)
    """JSON Schema of the arguments."""


class ListClientTools(WireModel):
    """Input of `choir.client.tools`."""


class ClientTools(WireModel):
    """Output of `choir.client.tools`."""

    tools: tuple[ClientTool, ...]


class ClientCall(WireModel):
    """Input of `choir.client.call`."""

    name: str = Field(pattern=NAME_PATTERN)
    arguments: JsonObject = Field(default_factory=dict)


class ClientCallResult(WireModel):
    """Output of `choir.client.call`."""

    state: Literal["open", "answered"]
    """`open`: the call is to be repeated, and waits on."""
    result: str = ""
