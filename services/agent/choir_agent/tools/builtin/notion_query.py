"""`choir.notion.query`: search, read and change pages of a Notion workspace.

Runs without locks, after the commitment is durable. Uses `tools.notion`.
"""

import re

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.api_client import ApiClient
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.notion.api import NotionClient, notion_service
from choir_agent.tools.notion.pages import NotionPages
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.model import JsonObject

TIMEOUT_MS = 120_000
MAX_TEXT_CHARS = 200_000
DEFAULT_LIMIT = 20
# Required arguments of each operation.
REQUIRED_ARGUMENTS = {
    "search": ("query",),
    "query": ("id",),
    "read": ("id",),
    "create": ("id", "title"),
    "append": ("id", "text"),
    "update": ("id", "properties"),
}
_ID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")

MANIFEST = ToolManifest(
    LlmView(
        name="choir.notion.query",
        description=(
            "Work with Notion. operation `search` (query): pages and databases by title; `query` (id "
            "of a database or data source, filter and sorts in Notion's own form): its rows; `read` "
            "(id): a page as Markdown; `create` (id of the parent page or database, title, "
            "properties, text as Markdown); `append` (id, text); `update` (id, properties). "
            'Properties are plain values, such as {"Status": "Done", "Due": "2026-01-31"}. An id is '
            "the 32 digits at the end of a page's address. Go on with next_cursor."
        ),
        parameters={
            "type": "object",
            "properties": {
                "operation": {"type": "string", "enum": [*REQUIRED_ARGUMENTS]},
                "id": {"type": "string", "maxLength": 300},
                "query": {"type": "string", "maxLength": 500},
                "filter": {"type": "object"},
                "sorts": {"type": "array", "items": {"type": "object"}, "maxItems": 10},
                "title": {"type": "string", "minLength": 1, "maxLength": 2_000},
                "properties": {"type": "object"},
                "text": {"type": "string", "maxLength": MAX_TEXT_CHARS},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                "cursor": {"type": "string", "maxLength": 200},
            },
            "required": ["operation"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        flow=DataFlow(outside=True, private=True),
        timeout_ms=TIMEOUT_MS,
        side_effect="external",
        # Creating a page twice makes two pages.
        idempotent=False,
        secret_resources=("notion",),
    ),
)


class NotionQueryTool:
    """Works with Notion pages."""

    manifest = MANIFEST

    def __init__(self, web: ApiClient) -> None:
        self._web = web

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Run one operation; raises ToolFailed if Notion is not configured, or with Notion's error."""
        operation = str(arguments["operation"])
        missing = [name for name in REQUIRED_ARGUMENTS[operation] if name not in arguments]
        if missing:
            raise ToolFailed("bad_input", f"{operation} needs {' and '.join(missing)}.")
        pages = NotionPages(NotionClient(self._web, notion_service(context)))
        output = await _do(pages, operation, arguments)
        return ToolOutput(output, str(output.get("summary") or f"{operation} done"))


async def _do(pages: NotionPages, operation: str, arguments: JsonObject) -> JsonObject:
    max_results = arguments.get("limit", DEFAULT_LIMIT)
    limit = int(max_results) if isinstance(max_results, int | float) else DEFAULT_LIMIT
    cursor = str(arguments["cursor"]) if "cursor" in arguments else None
    if operation == "search":
        return await pages.search(str(arguments["query"]), limit, cursor)
    page = _id(str(arguments["id"]))
    text = str(arguments.get("text", ""))
    changes = arguments.get("properties")
    properties = changes if isinstance(changes, dict) else {}
    match operation:
        case "query":
            narrowing = {
                key: value for key, value in arguments.items() if key in ("filter", "sorts")
            }
            return await pages.query(page, narrowing, limit, cursor)
        case "read":
            return await pages.read(page)
        case "create":
            return await pages.create(page, str(arguments["title"]), properties, text)
        case "append":
            return await pages.append(page, text)
    return await pages.update(page, properties)


def _id(text: str) -> str:
    """Return the id in a text, which may be a page's URL; only an id gets into a request path."""
    ids = [match.group() for match in _ID.finditer(text.partition("?")[0])]
    if not ids:
        raise ToolFailed("bad_input", "An id has 32 hexadecimal digits.")
    return ids[-1]
