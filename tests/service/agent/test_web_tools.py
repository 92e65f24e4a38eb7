"""Web search, speech and Notion against servers that speak their wire formats, errors and limits."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.responses import Response

from choir_agent.tools.builtin.notion_query import NotionQuery
from choir_agent.tools.builtin.tts_speak import TtsSpeak
from choir_agent.tools.builtin.web_search import WebSearch
from choir_agent.tools.tool import CallContext, Tool, ToolFailed
from choir_agent.tools.web_client import WebClient
from choir_agent.tools.workspace import Workspace
from choir_common.wire.config import (
    AgentSettings,
    Budgets,
    ModelConfig,
    NotionConfig,
    SearchConfig,
    TtsConfig,
    VoiceBinding,
    VoiceProfileConfig,
)
from choir_common.wire.json import JsonObject
from tests.support.web_services import (
    DATABASE,
    KEY,
    PAGE,
    SOURCE,
    TWO_SOURCES,
    NotionServer,
    WebService,
    block,
    brave_error,
    eleven_error,
    notion_error,
    running_brave,
    running_elevenlabs,
    running_notion,
)

SETTINGS = AgentSettings(
    model_name="m",
    model=ModelConfig(model="m", endpoint="http://127.0.0.1:1"),
    budgets=Budgets(),
    heartbeat_interval_ms=1000,
    rate_limit_retry_ms=1,
    event_window=10,
)


def with_search(endpoint: str) -> AgentSettings:
    return SETTINGS.model_copy(update={"search": SearchConfig(secret="brave", endpoint=endpoint)})


def with_voice(
    endpoint: str, output_format: str = "opus_48000_64", voice_id: str = "voice1"
) -> AgentSettings:
    profile = VoiceProfileConfig(tts="t", voice_id=voice_id, output_format=output_format)
    tts = TtsConfig(model_id="eleven_multilingual_v2", endpoint=endpoint, secret="eleven")
    return SETTINGS.model_copy(update={"voice": VoiceBinding(profile=profile, tts=tts)})


def with_notion(endpoint: str) -> AgentSettings:
    return SETTINGS.model_copy(update={"notion": NotionConfig(secret="notion", endpoint=endpoint)})


async def use(
    tool: Tool, settings: AgentSettings | None, arguments: JsonObject, key: str | None = KEY
) -> JsonObject:
    """Call a tool as the arbiter does, with the secrets its manifest names."""
    resources = tool.manifest.runtime.secret_resources
    secrets = dict.fromkeys(resources, key) if key else {}
    context = CallContext("call_0123456789ab", "edge", settings=settings, secrets=secrets)  # type: ignore[arg-type]
    return (await tool.run(context, arguments)).output


async def failure_of(
    tool: Tool, settings: AgentSettings | None, arguments: JsonObject, key: str | None = KEY
) -> ToolFailed:
    with pytest.raises(ToolFailed) as caught:
        await use(tool, settings, arguments, key)
    assert KEY not in str(caught.value.output())
    return caught.value


@contextlib.asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[str]:
    """Serve bytes that are no whole answer, and then hang up; without bytes, never answer."""
    handled = asyncio.Event()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if not answer:
            await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        handled.set()

    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.wait_for(handled.wait(), 5)
    finally:
        server.close()


@pytest.fixture
async def brave() -> AsyncIterator[WebService]:
    async with running_brave() as service:
        yield service


@pytest.fixture
async def eleven() -> AsyncIterator[WebService]:
    async with running_elevenlabs() as service:
        yield service


@pytest.fixture
async def notion() -> AsyncIterator[tuple[WebService, NotionServer]]:
    async with running_notion() as pair:
        yield pair


# web search


async def test_a_search_returns_results_without_markup(brave: WebService) -> None:
    asking: JsonObject = {
        "query": "a b",
        "count": 2,
        "page": 1,
        "freshness": "pw",
        "language": "de",
    }
    output = await use(WebSearch(WebClient()), with_search(brave.endpoint), asking)
    assert output == {
        "summary": "2 results for 'a b'",
        "results": [
            {
                "title": f"Result & {number}",
                "url": f"https://example.org/{number}",
                "description": "An escaped <tag>",
                "age": "2026-01-02T03:04:05",
            }
            for number in (0, 1)
        ],
        "more": True,
    }
    asked = brave.asked[0]
    assert asked.headers["x-subscription-token"] == KEY
    assert KEY not in str(asked.query)
    wanted = {"q": "a b", "count": "2", "offset": "1", "freshness": "pw", "search_lang": "de"}
    assert asked.query.items() >= wanted.items()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (brave_error(401, "UNAUTHORIZED", f"no {KEY}"), "unauthorized"),
        (brave_error(422, "SUBSCRIPTION_TOKEN_INVALID", "bad token"), "unauthorized"),
        (brave_error(422, "VALIDATION", "Unable to validate"), "bad_input"),
        (brave_error(500, "INTERNAL", "oops"), "service_error"),
        (brave_error(400, "BAD", "no"), "refused"),
        (Response("<html>gateway</html>", 502), "service_error"),
        (Response("not json", 200), "bad_answer"),
        (Response("[]", 200), "bad_answer"),
        (Response("", 200), "bad_answer"),
        (Response(b"x" * 9_000_000, 200), "bad_answer"),
        (Response("", 302, {"location": "http://127.0.0.1:9/"}), "refused"),
        (brave_error(429, "RATE_LIMITED", "slow", {"Retry-After": "3600"}), "rate_limited"),
        (brave_error(429, "RATE_LIMITED", "slow"), "rate_limited"),
    ],
)
async def test_what_brave_says_is_a_clear_error(
    brave: WebService, answer: Response, kind: str
) -> None:
    brave.queued.append(answer)
    error = await failure_of(WebSearch(WebClient()), with_search(brave.endpoint), {"query": "x"})
    assert error.kind == kind
    assert len(brave.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"web": None},
        {"web": {"results": None}},
        {"web": {"results": [1, {}, {"url": 5}]}},
        {"query": 3, "web": []},
    ],
)
async def test_odd_bodies_are_no_results_and_no_crash(brave: WebService, body: object) -> None:
    brave.then(200, body)
    output = await use(WebSearch(WebClient()), with_search(brave.endpoint), {"query": "x"})
    assert output["results"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "0.1"},
        {"X-RateLimit-Remaining": "0, 1999", "X-RateLimit-Reset": "0, 2419200"},
    ],
)
async def test_a_short_wait_is_waited_once(brave: WebService, headers: dict[str, str]) -> None:
    brave.queued.append(brave_error(429, "RATE_LIMITED", "slow", headers))
    tool, settings = WebSearch(WebClient()), with_search(brave.endpoint)
    assert (await use(tool, settings, {"query": "x"}))["more"] is True
    brave.queued += [brave_error(429, "RATE_LIMITED", "slow", headers) for _ in range(2)]
    assert (await failure_of(tool, settings, {"query": "x"})).kind == "rate_limited"
    assert len(brave.asked) == 4


async def test_a_long_wait_is_left_to_the_model(brave: WebService) -> None:
    limits = {"X-RateLimit-Remaining": "0, 0", "X-RateLimit-Reset": "1, 86400"}
    brave.queued.append(brave_error(429, "RATE_LIMITED", "slow", limits))
    error = await failure_of(WebSearch(WebClient()), with_search(brave.endpoint), {"query": "x"})
    assert error.output()["retry_after_s"] == 86400


async def test_a_service_that_is_not_there_is_said_to_be(brave: WebService) -> None:
    settings = with_search("http://127.0.0.1:1")
    assert (
        await failure_of(WebSearch(WebClient()), settings, {"query": "x"})
    ).kind == "unreachable"


async def test_a_service_that_never_answers_is_given_up() -> None:
    async with raw_server(b"") as endpoint:
        error = await failure_of(WebSearch(WebClient(), 0.3), with_search(endpoint), {"query": "x"})
    assert error.kind == "timeout"


# all three


@pytest.mark.parametrize("tool", [WebSearch, NotionQuery, TtsSpeak])
async def test_what_is_not_configured_is_said_with_what_to_do(tool: type, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    made: Tool = tool(workspace, WebClient()) if tool is TtsSpeak else tool(WebClient())
    arguments: JsonObject = {"query": "x", "text": "x", "operation": "search"}
    error = await failure_of(made, SETTINGS, arguments)
    assert error.kind == "not_configured"
    assert "config.json" in error.message
    every = with_search("http://127.0.0.1:1").model_copy(
        update={
            "notion": with_notion("http://127.0.0.1:1").notion,
            "voice": with_voice("http://127.0.0.1:1").voice,
        }
    )
    assert (await failure_of(made, every, arguments, key=None)).kind == "no_secret"
    workspace.close()


async def test_the_key_is_in_no_log_line_whatever_goes_wrong(
    brave: WebService, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    tool, settings = WebSearch(WebClient()), with_search(brave.endpoint)
    for status in (200, 401, 429, 500):
        brave.then(
            status,
            {
                "web": {"results": [{"url": f"https://x/{KEY}", "title": KEY}]},
                "error": {"detail": KEY},
            },
        )
        try:
            assert KEY not in str(await use(tool, settings, {"query": "x"}))
        except ToolFailed as error:
            assert KEY not in str(error.output())
    await failure_of(tool, with_search("http://127.0.0.1:1"), {"query": "x"})
    assert KEY not in caplog.text
    assert KEY not in "".join(capfd.readouterr())


# speech


async def test_speech_is_saved_for_sending(eleven: WebService, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    tool = TtsSpeak(workspace, WebClient())
    output = await use(tool, with_voice(eleven.endpoint), {"text": "Grüße", "name": "hello"})
    place = tmp_path / ".choirtmp/send/hello.ogg"
    assert (output["path"], output["bytes"]) == (".choirtmp/send/hello.ogg", 200_004)
    assert place.read_bytes()[:5] == b"OggS\x01"
    asked = eleven.asked[0]
    assert (asked.path, asked.query) == (
        "/v1/text-to-speech/voice1",
        {"output_format": "opus_48000_64"},
    )
    assert asked.headers["xi-api-key"] == KEY
    assert asked.body == {
        "text": "Grüße",
        "model_id": "eleven_multilingual_v2",
        "voice_settings": {
            "stability": 0.5, "similarity_boost": 0.75, "style": 0.0,
            "use_speaker_boost": True, "speed": 1.0,
        },
    }  # fmt: skip
    unnamed = await use(tool, with_voice(eleven.endpoint, "mp3_44100_128"), {"text": "x"})
    assert unnamed["path"] == ".choirtmp/send/speech-0123456789ab.mp3"
    workspace.close()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (eleven_error(401, "invalid_api_key", f"Invalid {KEY}"), "unauthorized"),
        (eleven_error(401, "quota_exceeded", "You have 3 credits remaining"), "quota_exceeded"),
        (eleven_error(404, "voice_not_found", "no such voice"), "not_found"),
        (eleven_error(429, "too_many_concurrent_requests", "busy"), "rate_limited"),
        (eleven_error(500, "internal", "oops"), "service_error"),
        (Response('{"detail":[{"loc":["body","text"],"msg":"too long"}]}', 422), "bad_input"),
        (Response('{"detail":"plain"}', 400), "refused"),
        (Response("<html>", 503), "service_error"),
        (Response("{}", 200, media_type="application/json"), "bad_answer"),
        (Response(b"", 200, media_type="audio/mpeg"), "bad_answer"),
        (Response(b"x" * 400_000, 200, media_type="audio/mpeg"), "too_large"),
    ],
)
async def test_what_elevenlabs_says_is_a_clear_error_and_leaves_no_file(
    eleven: WebService, tmp_path: Path, answer: Response, kind: str
) -> None:
    eleven.queued.append(answer)
    workspace = Workspace(tmp_path)
    tool = TtsSpeak(workspace, WebClient(), max_audio_bytes=300_000)
    error = await failure_of(tool, with_voice(eleven.endpoint), {"text": "x", "name": "n"})
    assert error.kind == kind
    assert list((tmp_path / ".choirtmp/send").iterdir()) == []
    workspace.close()


async def test_a_short_limit_of_the_voice_is_waited_for_once(
    eleven: WebService, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    tool, settings = TtsSpeak(workspace, WebClient()), with_voice(eleven.endpoint)
    busy = {"detail": {"status": "system_busy", "message": "busy"}}
    eleven.then(429, busy, {"Retry-After": "0"})
    assert (await use(tool, settings, {"text": "x", "name": "n"}))["bytes"] == 200_004
    eleven.then(429, busy, {"Retry-After": "0"})
    eleven.then(429, busy, {"Retry-After": "7"})
    error = await failure_of(tool, settings, {"text": "x"})
    assert error.output()["retry_after_s"] == 7
    workspace.close()


async def test_audio_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 999\r\n\r\nabc"
    workspace = Workspace(tmp_path)
    tool = TtsSpeak(workspace, WebClient())
    async with raw_server(head) as endpoint:
        error = await failure_of(tool, with_voice(endpoint), {"text": "x"})
    assert error.kind == "outcome_unknown"
    assert list((tmp_path / ".choirtmp/send").iterdir()) == []
    workspace.close()


# Notion


async def test_notion_is_searched_and_its_rows_are_plain_values(
    notion: tuple[WebService, NotionServer],
) -> None:
    service, _ = notion
    tool, settings = NotionQuery(WebClient()), with_notion(service.endpoint)
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
    notion: tuple[WebService, NotionServer],
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
    tool, settings = NotionQuery(WebClient()), with_notion(service.endpoint)
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
    notion: tuple[WebService, NotionServer],
) -> None:
    service, server = notion
    tool, settings = NotionQuery(WebClient()), with_notion(service.endpoint)
    server.children[PAGE] = [block("paragraph", f"p{n}") for n in range(250)]
    output = await use(tool, settings, {"operation": "read", "id": PAGE})
    assert str(output["text"]).split("\n")[-1] == "p249"
    server.children[PAGE] = [block("paragraph", f"p{n}") for n in range(2_000)]
    output = await use(tool, settings, {"operation": "read", "id": PAGE})
    assert (str(output["text"]).split("\n")[-1], output["truncated"]) == ("p499", True)


async def test_pages_are_made_changed_and_added_to(notion: tuple[WebService, NotionServer]) -> None:
    service, server = notion
    tool, settings = NotionQuery(WebClient()), with_notion(service.endpoint)
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
    notion: tuple[WebService, NotionServer], answer: Response, kind: str
) -> None:
    service, _ = notion
    service.queued.append(answer)
    asking: JsonObject = {"operation": "search", "query": "x"}
    error = await failure_of(NotionQuery(WebClient()), with_notion(service.endpoint), asking)
    assert error.kind == kind


async def test_a_short_limit_of_notions_is_waited_for(
    notion: tuple[WebService, NotionServer],
) -> None:
    service, _ = notion
    service.queued.append(notion_error(429, "rate_limited", "slow", {"Retry-After": "0"}))
    asking: JsonObject = {"operation": "search", "query": "x"}
    assert (await use(NotionQuery(WebClient()), with_notion(service.endpoint), asking))["found"]


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
    notion: tuple[WebService, NotionServer], arguments: JsonObject
) -> None:
    service, _ = notion
    error = await failure_of(NotionQuery(WebClient()), with_notion(service.endpoint), arguments)
    assert (error.kind, service.asked) == ("bad_input", [])
