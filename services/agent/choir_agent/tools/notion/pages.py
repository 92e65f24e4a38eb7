"""Search, query, read, create and change Notion pages, one method per operation of `choir.notion.query`."""

from pydantic import JsonValue

from choir_agent.tools.notion.api import NotionClient
from choir_agent.tools.notion.blocks import block_to_markdown, markdown_to_blocks, text_to_rich_text
from choir_agent.tools.notion.properties import (
    property_types,
    property_values,
    title_text,
    to_notion_properties,
)
from choir_agent.tools.tool import ToolFailed
from choir_common.wire.model import JsonObject

# Notion's limit for one request.
PAGE_SIZE = 100
MAX_BLOCKS = 500
MAX_DEPTH = 4
# Children that are separate pages; they are read by their own id.
_ELSEWHERE = ("child_page", "child_database")


class NotionPages:
    """Operations on the pages of one integration."""

    def __init__(self, api: NotionClient) -> None:
        self._api = api

    async def search(self, query: str, limit: int, cursor: str | None) -> JsonObject:
        """Search pages and data sources by title."""
        body: JsonObject = {"query": query, "page_size": min(limit, PAGE_SIZE)}
        if cursor:
            body["start_cursor"] = cursor
        return _list(await self._api.ask("/search", body), "found")

    async def query(
        self, database: str, narrowing: JsonObject, limit: int, cursor: str | None
    ) -> JsonObject:
        """Return rows of a data source, or of a database with exactly one data source.

        `narrowing` contains Notion's own `filter` and `sorts`.
        """
        body: JsonObject = {**narrowing, "page_size": min(limit, PAGE_SIZE)}
        if cursor:
            body["start_cursor"] = cursor
        try:
            answer = await self._api.ask(f"/data_sources/{database}/query", body)
        except ToolFailed as error:
            if error.kind not in ("not_found", "bad_input"):
                raise
            # Not a data source: it may be a database with one.
            source = await self._only_source(database, error)
            answer = await self._api.ask(f"/data_sources/{source}/query", body)
        return _list(answer, "rows")

    async def read(self, page: str) -> JsonObject:
        """Return a page's properties and its content as Markdown."""
        about = await self._api.get(f"/pages/{page}")
        lines: list[str] = []
        complete = await self._read_below(page, 0, lines, [MAX_BLOCKS])
        output: JsonObject = {**_row(about), "text": "\n".join(lines)}
        if not complete:
            output |= {"truncated": True, "note": f"only the first {MAX_BLOCKS} blocks"}
        return output

    async def create(
        self, parent: str, title: str, properties: JsonObject, text: str
    ) -> JsonObject:
        """Create a page below another page, or a row of a data source."""
        body: JsonObject
        try:
            schema = await self._api.get(f"/data_sources/{await self._source_of(parent)}")
        except ToolFailed as error:
            if error.kind not in ("not_found", "bad_input"):
                raise
            if properties:
                raise ToolFailed(
                    "bad_input", "A child page of a page cannot have properties."
                ) from error
            body = {
                "parent": {"type": "page_id", "page_id": parent},
                "properties": {"title": {"title": text_to_rich_text(title)}},
            }
        else:
            types = property_types(schema.get("properties"))
            name = next((name for name, kind in types.items() if kind == "title"), "title")
            body = {
                "parent": {"type": "data_source_id", "data_source_id": str(schema.get("id"))},
                "properties": to_notion_properties({name: title, **properties}, types),
            }
        blocks = markdown_to_blocks(text)
        body["children"] = [*blocks[:PAGE_SIZE]]
        page = await self._api.change("POST", "/pages", body)
        output = _row(page)
        if len(blocks) > PAGE_SIZE:
            await self._append(str(page.get("id")), blocks[PAGE_SIZE:])
        return output

    async def append(self, page: str, text: str) -> JsonObject:
        """Add text at the end of a page."""
        blocks = markdown_to_blocks(text)
        if not blocks:
            raise ToolFailed("bad_input", "There is no text to append.")
        await self._append(page, blocks)
        return {"id": page, "appended_blocks": len(blocks)}

    async def update(self, page: str, properties: JsonObject) -> JsonObject:
        """Change a page's properties."""
        about = await self._api.get(f"/pages/{page}")
        body: JsonObject = {
            "properties": to_notion_properties(properties, property_types(about.get("properties")))
        }
        return _row(await self._api.change("PATCH", f"/pages/{page}", body))

    async def _append(self, page: str, blocks: list[JsonObject]) -> None:
        for start in range(0, len(blocks), PAGE_SIZE):
            children: list[JsonValue] = [*blocks[start : start + PAGE_SIZE]]
            try:
                await self._api.change("PATCH", f"/blocks/{page}/children", {"children": children})
            except ToolFailed as error:
                # Earlier requests have succeeded, so the model must know how many blocks are on the
                # page.
                if start:
                    error.details = {**error.details, "id": page, "appended_blocks": start}
                raise

    async def _source_of(self, database: str) -> str:
        """Return the id of a data source, given that id or its database's id."""
        try:
            await self._api.get(f"/data_sources/{database}")
        except ToolFailed as error:
            if error.kind not in ("not_found", "bad_input"):
                raise
            return await self._only_source(database, error)
        return database

    async def _only_source(self, database: str, unknown: ToolFailed) -> str:
        """Return the id of a database's only data source; raises `unknown` if it is not a database."""
        try:
            about = await self._api.get(f"/databases/{database}")
        except ToolFailed as error:
            raise unknown from error
        entries = about.get("data_sources")
        sources = (
            [entry for entry in entries if isinstance(entry, dict)]
            if isinstance(entries, list)
            else []
        )
        if len(sources) != 1:
            names: list[JsonValue] = [{"id": s.get("id"), "name": s.get("name")} for s in sources]
            raise ToolFailed(
                "bad_input",
                "This database has several data sources; use the id of one of them.",
                {"data_sources": names},
            )
        return str(sources[0].get("id"))

    async def _read_below(self, block: str, depth: int, lines: list[str], room: list[int]) -> bool:
        """Append the lines of a block's children; return False if the block limit cut them short."""
        cursor: str | None = None
        while True:
            query: dict[str, str | int] = {"page_size": PAGE_SIZE}
            if cursor:
                query["start_cursor"] = cursor
            answer = await self._api.get(f"/blocks/{block}/children", **query)
            for child in _results(answer):
                if room[0] <= 0:
                    return False
                room[0] -= 1
                if line := block_to_markdown(child, depth):
                    lines.append(line)
                deeper = child.get("has_children") is True and child.get("type") not in _ELSEWHERE
                if deeper and depth < MAX_DEPTH:
                    below = await self._read_below(str(child.get("id")), depth + 1, lines, room)
                    if not below:
                        return False
            following = answer.get("next_cursor")
            if answer.get("has_more") is not True or not isinstance(following, str):
                return True
            cursor = following


def _results(answer: JsonObject) -> list[JsonObject]:
    results = answer.get("results")
    return [item for item in results if isinstance(item, dict)] if isinstance(results, list) else []


def _list(answer: JsonObject, name: str) -> JsonObject:
    rows: list[JsonValue] = [_row(item) for item in _results(answer)]
    output: JsonObject = {"summary": f"{len(rows)} {name}", name: rows}
    if answer.get("has_more") is True and answer.get("next_cursor"):
        output["next_cursor"] = answer["next_cursor"]
    return output


def _row(thing: JsonObject) -> JsonObject:
    row: JsonObject = {
        "id": thing.get("id"),
        "kind": thing.get("object"),
        "title": title_text(thing),
        "url": thing.get("url"),
    }
    if thing.get("object") == "page":
        row["properties"] = property_values(thing.get("properties"))
    elif types := property_types(thing.get("properties")):
        row["property_types"] = {**types}
    return row
