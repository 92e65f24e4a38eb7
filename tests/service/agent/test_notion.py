"""Notion against a server that speaks its wire format, errors and limits."""

from collections.abc import AsyncIterator

import pytest
from starlette.responses import Response

from choir_agent.tools.api_client import ApiClient
from choir_agent.tools.builtin.notion_query import NotionQueryTool
from choir_agent.tools.tool import ToolFailed
from choir_common.wire.model import JsonObject
from tests.service.agent.web_calls import failure_of, use, with_notion
from tests.support.fake_web_services import (
    DATABASE,
    KEY,
    PAGE,
    SOURCE,
    TWO_SOURCES,
    FakeNotion,
    FakeWebService,
    block,
    fake_notion,
    notion_error,
)


@pytest.fixture
async def notion() -> AsyncIterator[tuple[FakeWebService, FakeNotion]]:
    async with fake_notion() as pair:
        yield pair


async def test_notion_is_searched_and_its_rows_are_plain_values(
    notion: tuple[FakeWebService, FakeNotion],
) -> None:
    service, _ = notion
    tool, settings = NotionQueryTool(ApiClient()), with_notion(service.endpoint)
    found = await use(tool, settings, {"operation": "search", "query": "plans", "limit": 5})
    row = found["found"][0]  # type: ignore[index,call-overload]
    assert (row["id"], row["title"], row["kind"]) == (PAGE, "Plans", "page")
    assert row["properties"] == {
        "Name": "Plans", "Status": "Open", "Tags": ["x"], "Due": "2026-01-31",
        "Done": False, "Cost": 12.5, "Made": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    assert service.asked[0].body == {"query": "plans", "page_size": 5}
    for identity in (SOURCE, DATABASE):
        narrowing: JsonObject = {"filter": {"property": "Done"}, "sorts": [{"property": "Due"}]}
        rows = await use(tool, settings, {"operation": "query", "id": identity, **narrowing})
        assert rows["summary"] == "3 rows"
        assert service.asked[-1].body == {**narrowing, "page_size": 20}
    error = await failure_of(tool, settings, {"operation": "query", "id": TWO_SOURCES})
    assert [s["name"] for s in error.details["data_sources"]] == ["one", "two"]  # type: ignore[union-attr,index,call-overload]


async def test_a_page_is_read_as_markdown_with_what_lies_below(
    notion: tuple[FakeWebService, FakeNotion],
) -> None:
    service, server = notion
    server.children[PAGE] = [
        block("heading_1", "Title"),
        block("paragraph", "words"),
        block("bulleted_list_item", "outer", 7, children=True),
        block("to_do", "task", checked=True),
        block("code", "x = 1\ny", language="python"),
        {"object": "block", "id": "d", "type": "divider", "divider": {}},
        {"object": "block", "id": "c", "type": "child_page", "has_children": True,
         "child_page": {"title": "Sub"}},
        block("new_kind", "strange"),
        {"object": "block", "id": "i", "type": "image",
         "image": {"type": "external", "external": {"url": "https://i"}}},
    ]  # fmt: skip
    server.children["00000007-0000-0000-0000-000000000000"] = [block("bulleted_list_item", "inner")]
    address = f"https://www.notion.so/Plans-{PAGE.replace('-', '')}?pvs=4"
    tool, settings = NotionQueryTool(ApiClient()), with_notion(service.endpoint)
    output = await failure_of(tool, settings, {"operation": "read", "id": "no id"})
    assert output.kind == "bad_input"
    page = await use(tool, settings, {"operation": "read", "id": PAGE})
    assert page["text"] == (
        "# Title\nwords\n- outer\n  - inner\n- [x] task\n```python\nx = 1\ny\n```\n---\n"
        "[child page: Sub]\n[new_kind] strange\n[image: https://i]"
    )
    asked = service.asked[-3:]
    with pytest.raises(ToolFailed):
        await use(tool, settings, {"operation": "read", "id": address.replace("1", "9")})
    assert asked[0].path == f"/v1/pages/{PAGE}"


async def test_a_long_page_is_read_page_by_page_and_bounded(
    notion: tuple[FakeWebService, FakeNotion],
) -> None:
    service, server = notion
    tool, settings = NotionQueryTool(ApiClient()), with_notion(service.endpoint)
    server.children[PAGE] = [block("paragraph", f"p{n}") for n in range(250)]
    output = await use(tool, settings, {"operation": "read", "id": PAGE})
    assert str(output["text"]).split("\n")[-1] == "p249"
    server.children[PAGE] = [block("paragraph", f"p{n}") for n in range(2_000)]
    output = await use(tool, settings, {"operation": "read", "id": PAGE})
    assert (str(output["text"]).split("\n")[-1], output["truncated"]) == ("p499", True)


async def test_pages_are_made_changed_and_added_to(
    notion: tuple[FakeWebService, FakeNotion],
) -> None:
    service, server = notion
    tool, settings = NotionQueryTool(ApiClient()), with_notion(service.endpoint)
    text = "# H\n- [x] done\n1. one\n> said\n```python\ncode\n```\n---\nlong " + "x" * 4_000
    values: JsonObject = {
        "Status": "Done",
        "Tags": ["a", "b"],
        "Cost": 3,
        "Done": True,
        "Due": "2026-02-01",
    }
    creating: JsonObject = {
        "operation": "create",
        "id": DATABASE,
        "title": "T",
        "properties": values,
        "text": text,
    }
    await use(tool, settings, creating)
    made = server.made[0]
    assert isinstance(made, dict)
    assert made["parent"] == {"type": "data_source_id", "data_source_id": SOURCE}
    assert made["properties"]["Status"] == {"status": {"name": "Done"}}
    assert made["properties"]["Tags"] == {"multi_select": [{"name": "a"}, {"name": "b"}]}
    assert made["properties"]["Name"]["title"][0]["text"]["content"] == "T"
    kinds = [child["type"] for child in made["children"]]
    assert kinds == [
        "heading_1",
        "to_do",
        "numbered_list_item",
        "quote",
        "code",
        "divider",
        "paragraph",
    ]
    pieces = made["children"][-1]["paragraph"]["rich_text"]
    assert [len(piece["text"]["content"]) for piece in pieces] == [2000, 2000, 5]
    await use(tool, settings, {"operation": "create", "id": PAGE, "title": "Below"})
    below = server.made[1]
    assert isinstance(below, dict)
    assert below["parent"] == {"type": "page_id", "page_id": PAGE}
    await use(tool, settings, {"operation": "append", "id": PAGE, "text": "line\n" * 250})
    assert len(server.appended) == 250
    await use(tool, settings, {"operation": "update", "id": PAGE, "properties": {"Done": True}})
    assert server.changed == [{"properties": {"Done": {"checkbox": True}}}]
    for wrong in ({"Nope": 1}, {"Made": "x"}, {"Done": "yes"}):
        error = await failure_of(
            tool, settings, {"operation": "update", "id": PAGE, "properties": wrong}
        )  # type: ignore[dict-item]
        assert error.kind == "bad_input"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (notion_error(401, "unauthorized", f"API token {KEY} is invalid."), "unauthorized"),
        (notion_error(403, "restricted_resource", "no"), "not_found"),
        (notion_error(404, "object_not_found", "Could not find page"), "not_found"),
        (notion_error(409, "conflict_error", "conflict"), "conflict"),
        (notion_error(400, "validation_error", "body failed"), "bad_input"),
        (notion_error(429, "rate_limited", "slow", {"Retry-After": "900"}), "rate_limited"),
        (notion_error(503, "service_unavailable", "down"), "service_error"),
        (Response("oops", 500), "service_error"),
        (Response("oops", 200), "bad_answer"),
    ],
)
async def test_what_notion_says_is_a_clear_error(
    notion: tuple[FakeWebService, FakeNotion], answer: Response, kind: str
) -> None:
    service, _ = notion
    service.queued.append(answer)
    asking: JsonObject = {"operation": "search", "query": "x"}
    error = await failure_of(NotionQueryTool(ApiClient()), with_notion(service.endpoint), asking)
    assert error.kind == kind


async def test_a_short_limit_of_notions_is_waited_for(
    notion: tuple[FakeWebService, FakeNotion],
) -> None:
    service, _ = notion
    service.queued.append(notion_error(429, "rate_limited", "slow", {"Retry-After": "0"}))
    asking: JsonObject = {"operation": "search", "query": "x"}
    assert (await use(NotionQueryTool(ApiClient()), with_notion(service.endpoint), asking))["found"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"operation": "read"},
        {"operation": "create", "id": PAGE},
        {"operation": "append", "id": PAGE, "text": "\n\n"},
        {"operation": "read", "id": "../../v1/users"},
    ],
)
async def test_an_incomplete_operation_is_refused_before_anything_is_sent(
    notion: tuple[FakeWebService, FakeNotion], arguments: JsonObject
) -> None:
    service, _ = notion
    error = await failure_of(NotionQueryTool(ApiClient()), with_notion(service.endpoint), arguments)
    assert (error.kind, service.asked) == ("bad_input", [])
