"""Requests to an MCP server, over the SDK's session. One of four modules that import the SDK.

Results are not checked against the server's own schemas, as the SDK's `call_tool` does: Python may evaluate
the regular expressions of a hostile schema endlessly.
"""

import asyncio
from dataclasses import dataclass
from typing import assert_never

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from choir_agent.mcp_client.call_progress import CallProgress
from choir_agent.mcp_client.content_tools import ContentKind
from choir_agent.mcp_client.definitions import ToolDefinition
from choir_agent.mcp_client.faults import AddressRequired, McpServerError, UnknownMethod
from choir_agent.mcp_client.streams import MAX_MESSAGE_BYTES
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_messages

MAX_PAGES = 50
CONNECTION_ERRORS = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)


@dataclass(frozen=True, slots=True)
class _ListRequest:
    """A request that is answered in pages."""

    request: type[
        types.ListToolsRequest
        | types.ListResourcesRequest
        | types.ListResourceTemplatesRequest
        | types.ListPromptsRequest
    ]
    result: type[types.Result]
    key: str
    """Name of the list in the answer."""


_TOOLS = _ListRequest(types.ListToolsRequest, types.ListToolsResult, "tools")
_RESOURCES = _ListRequest(types.ListResourcesRequest, types.ListResourcesResult, "resources")
_TEMPLATES = _ListRequest(
    types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult, "resourceTemplates"
)
_PROMPTS = _ListRequest(types.ListPromptsRequest, types.ListPromptsResult, "prompts")


class ServerRequests:
    """Sends requests of one connection; all methods raise McpServerError."""

    def __init__(self, session: ClientSession, end: asyncio.Future[str]) -> None:
        self._session, self._end = session, end

    async def list_tools(self, announced: types.ServerCapabilities | None) -> list[JsonObject]:
        """Return the definitions of all tools; none of a server that neither announces nor knows any."""
        is_optional = announced is None or announced.tools is None
        return await self._list_all(_TOOLS, None, is_optional=is_optional)

    async def has_content(self, kind: ContentKind) -> bool:
        """Return whether the server lists any; also true if it answers with an error."""
        kinds = (_PROMPTS,) if kind == "prompts" else (_RESOURCES, _TEMPLATES)
        try:
            for query in kinds:
                if await self._list_all(query, None, is_optional=True, is_first_only=True):
                    return True
        except McpServerError:
            # The tools for them stay useful: their calls name the error.
            return not self._end.done()
        return False

    async def call(
        self, tool: ToolDefinition, arguments: JsonObject, progress: CallProgress
    ) -> JsonObject:
        """Send the request that a tool is, and return the answer as JSON."""
        match tool.method:
            case "tools/call":
                params = types.CallToolRequestParams(name=tool.name, arguments=arguments)
                request = types.CallToolRequest(params=params)
                return await self._send(request, types.CallToolResult, progress)
            case "resources/list":
                resources = await self._list_all(_RESOURCES, progress)
                templates = await self._list_all(_TEMPLATES, progress, is_optional=True)
                return {"resources": [*resources], "resourceTemplates": [*templates]}
            case "prompts/list":
                return {"prompts": [*await self._list_all(_PROMPTS, progress)]}
            case "resources/read":
                address = types.ReadResourceRequestParams(uri=str(arguments.get("uri")))
                read = types.ReadResourceRequest(params=address)
                return await self._send(read, types.ReadResourceResult, progress)
            case "prompts/get":
                values = arguments.get("arguments")
                texts = {k: str(v) for k, v in values.items()} if isinstance(values, dict) else None
                prompt = types.GetPromptRequestParams(
                    name=str(arguments.get("name")), arguments=texts
                )
                get = types.GetPromptRequest(params=prompt)
                return await self._send(get, types.GetPromptResult, progress)
            case other:
                assert_never(other)

    async def _list_all(
        self,
        query: _ListRequest,
        progress: CallProgress | None,
        *,
        is_optional: bool = False,
        is_first_only: bool = False,
    ) -> list[JsonObject]:
        """Return the entries of all pages, or only of the first; none if optional and unknown."""
        entries: list[JsonObject] = []
        cursor, size = None, 0
        for _page in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            try:
                page = await self._send(query.request(params=params), query.result, progress)
            except UnknownMethod:
                if is_optional:
                    return []
                raise
            part = page.get(query.key)
            entries += [e for e in part if isinstance(e, dict)] if isinstance(part, list) else []
            size += len(str(page))
            if size > MAX_MESSAGE_BYTES:
                raise McpServerError(
                    _("the list of its {key} takes more than {max_message_bytes} bytes").format(
                        key=query.key, max_message_bytes=MAX_MESSAGE_BYTES
                    )
                )
            cursor = page.get("nextCursor")
            if is_first_only or not isinstance(cursor, str) or not cursor:
                return entries
        raise McpServerError(
            _("the list of its {key} has more than {max_pages} pages").format(
                key=query.key, max_pages=MAX_PAGES
            )
        )

    async def _send(
        self,
        request: types.ClientRequest,
        result_type: type[types.Result],
        progress: CallProgress | None = None,
    ) -> JsonObject:
        on_progress = progress.record if progress is not None else None
        try:
            result = await self._session.send_request(
                request, result_type, progress_callback=on_progress
            )
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                raise UnknownMethod(str(error.message)[:500]) from error
            if error.code == types.URL_ELICITATION_REQUIRED:
                raise AddressRequired(str(error.message)[:500], _requests_of(error)) from error
            is_end = error.code == types.CONNECTION_CLOSED
            reason = await wait_for_reason(self._end) if is_end else ""
            raise McpServerError(reason or str(error.message)[:500]) from error
        except ValidationError as error:
            reason = error_messages(error, _("the answer"))[0]
            raise McpServerError(
                _("its answer is not valid: {reason}").format(reason=reason)
            ) from error
        except CONNECTION_ERRORS as error:
            raise McpServerError(_("the connection has ended")) from error


def _requests_of(error: MCPError) -> tuple[JsonObject, ...]:
    """Return the questions that an error asks to put to a person first."""
    data = error.data if isinstance(error.data, dict) else {}
    value = data.get("elicitations")
    entries = value if isinstance(value, list) else []
    return tuple(entry for entry in entries if isinstance(entry, dict))


async def wait_for_reason(end: asyncio.Future[str]) -> str:
    """Return why a server has ended, or nothing if that is not known soon."""
    done, _ = await asyncio.wait((end,), timeout=2.0)
    return end.result() if done else ""
