"""Notion API client, for the API version with data sources."""

from choir_agent.tools.api_client import (
    ApiClient,
    ApiRequest,
    ApiResponse,
    ApiService,
    error_of_response,
    redacted_excerpt,
)
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_common.wire.model import JsonObject

VERSION = "2025-09-03"
TIMEOUT_S = 30.0


class NotionClient:
    """Notion access for one call."""

    def __init__(self, web: ApiClient, service: ApiService) -> None:
        self._web = web
        self._service = service

    async def get(self, path: str, **query: str | int) -> JsonObject:
        """Send a GET request; raises ToolFailed with Notion's error."""
        return await self._send(ApiRequest("GET", f"/v1{path}", query))

    async def ask(self, path: str, body: JsonObject) -> JsonObject:
        """Search or query: POST requests that change nothing; raises ToolFailed."""
        return await self._send(ApiRequest("POST", f"/v1{path}", body=body))

    async def change(self, method: str, path: str, body: JsonObject) -> JsonObject:
        """Create or update; raises ToolFailed."""
        return await self._send(ApiRequest(method, f"/v1{path}", body=body, effect=True))

    async def _send(self, call: ApiRequest) -> JsonObject:
        answer = await self._web.call(self._service, call, TIMEOUT_S)
        if answer.status != 200:
            raise self._failed(answer)
        return answer.json(self._service)

    def _failed(self, answer: ApiResponse) -> ToolFailed:
        try:
            error = answer.json(self._service)
        except ToolFailed:
            error = {}
        message = str(error.get("message") or "")
        match error.get("code"):
            case "object_not_found" | "restricted_resource":
                return ToolFailed(
                    "not_found",
                    f"Notion: {redacted_excerpt(message, self._service)} The user shares a page with the "
                    "integration in the page's menu, under Connections.",
                )
            case "conflict_error":
                return ToolFailed(
                    "conflict", "Notion: the page was changed concurrently. Try again."
                )
            case "validation_error" | "invalid_json" | "invalid_request":
                return ToolFailed(
                    "bad_input", f"Notion: {redacted_excerpt(message, self._service)}"
                )
        return error_of_response(self._service, answer, message)


def notion_service(context: CallContext) -> ApiService:
    """Return the agent's Notion integration; raises ToolFailed if there is none."""
    config = None if context.settings is None else context.settings.notion
    if config is None:
        raise ToolFailed(
            "not_configured",
            "This agent has no Notion integration: the user adds one under `notion_integrations` in "
            "config.json and names it in the agent's defaults.",
        )
    key = context.secrets.get("notion")
    if not key:
        raise ToolFailed(
            "no_secret", f"The secret `{config.secret}` has no value; the user sets it."
        )
    headers = {"Authorization": f"Bearer {key}", "Notion-Version": VERSION}
    return ApiService("Notion", config.endpoint, config.secret, key, headers)
