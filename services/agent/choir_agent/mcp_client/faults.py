"""Errors of MCP servers."""

from choir_common.errors import ChoirError
from choir_common.wire.model import JsonObject


class McpServerError(ChoirError):
    """A server cannot be started, has ended, or does not keep to the protocol; the text is the reason."""

    code, status = "mcp_server", 502


class AddressRequired(McpServerError):
    """The server answers a call only after a person has opened addresses (error -32042 of the protocol)."""

    code = "mcp_address_required"

    def __init__(self, message: str, requests: tuple[JsonObject, ...]) -> None:
        """`requests` are those of elicitations, as the server sent them."""
        super().__init__(message)
        self.requests = requests


class UnknownMethod(McpServerError):
    """The server does not know the method of a request."""

    code = "mcp_unknown_method"
