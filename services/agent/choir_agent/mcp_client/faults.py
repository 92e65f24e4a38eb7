"""Errors of MCP servers."""

from choir_common.errors import ChoirError


class McpServerError(ChoirError):
    """A server cannot be started, has ended, or does not keep to the protocol; the text is the reason."""

    code, status = "mcp_server", 502


class UnknownMethod(McpServerError):
    """The server does not know the method of a request."""

    code = "mcp_unknown_method"
