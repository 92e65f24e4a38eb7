"""Web search and speech against servers that speak their wire formats, errors and limits."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.responses import Response

from choir_agent.tools.api_client import ApiClient
from choir_agent.tools.builtin.notion_query import NotionQueryTool
from choir_agent.tools.builtin.tts_speak import TtsSpeakTool
from choir_agent.tools.builtin.web_search import WebSearchTool
from choir_agent.tools.speech.synthesis import SpeechSynthesizer
from choir_agent.tools.tool import Tool, ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.wire.model import JsonObject
from tests.service.agent.web_calls import (
    SETTINGS,
    failure_of,
    raw_server,
    use,
    with_notion,
    with_search,
    with_voice,
)
from tests.support.fake_web_services import (
    KEY,
    FakeWebService,
    brave_error,
    eleven_error,
    fake_brave,
    fake_elevenlabs,
)


@pytest.fixture
async def brave() -> AsyncIterator[FakeWebService]:
    async with fake_brave() as service:
        yield service


@pytest.fixture
async def eleven() -> AsyncIterator[FakeWebService]:
    async with fake_elevenlabs() as service:
        yield service


# web search


async def test_a_search_returns_results_without_markup(brave: FakeWebService) -> None:
    asking: JsonObject = {
        "query": "a b",
        "count": 2,
        "page": 1,
        "freshness": "pw",
        "language": "de",
    }
    output = await use(WebSearchTool(ApiClient()), with_search(brave.endpoint), asking)
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
    brave: FakeWebService, answer: Response, kind: str
) -> None:
    brave.queued.append(answer)
    error = await failure_of(
        WebSearchTool(ApiClient()), with_search(brave.endpoint), {"query": "x"}
    )
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
async def test_odd_bodies_are_no_results_and_no_crash(brave: FakeWebService, body: object) -> None:
    brave.then(200, body)
    output = await use(WebSearchTool(ApiClient()), with_search(brave.endpoint), {"query": "x"})
    assert output["results"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "0.1"},
        {"X-RateLimit-Remaining": "0, 1999", "X-RateLimit-Reset": "0, 2419200"},
    ],
)
async def test_a_short_wait_is_waited_once(brave: FakeWebService, headers: dict[str, str]) -> None:
    brave.queued.append(brave_error(429, "RATE_LIMITED", "slow", headers))
    tool, settings = WebSearchTool(ApiClient()), with_search(brave.endpoint)
    assert (await use(tool, settings, {"query": "x"}))["more"] is True
    brave.queued += [brave_error(429, "RATE_LIMITED", "slow", headers) for _ in range(2)]
    assert (await failure_of(tool, settings, {"query": "x"})).kind == "rate_limited"
    assert len(brave.asked) == 4


async def test_a_long_wait_is_left_to_the_model(brave: FakeWebService) -> None:
    limits = {"X-RateLimit-Remaining": "0, 0", "X-RateLimit-Reset": "1, 86400"}
    brave.queued.append(brave_error(429, "RATE_LIMITED", "slow", limits))
    error = await failure_of(
        WebSearchTool(ApiClient()), with_search(brave.endpoint), {"query": "x"}
    )
    assert error.error_output()["retry_after_s"] == 86400


async def test_a_service_that_is_not_there_is_said_to_be(brave: FakeWebService) -> None:
    settings = with_search("http://127.0.0.1:1")
    assert (
        await failure_of(WebSearchTool(ApiClient()), settings, {"query": "x"})
    ).kind == "unreachable"


async def test_a_service_that_never_answers_is_given_up() -> None:
    async with raw_server(b"") as endpoint:
        error = await failure_of(
            WebSearchTool(ApiClient(), 0.3), with_search(endpoint), {"query": "x"}
        )
    assert error.kind == "timeout"


# all three


@pytest.mark.parametrize("tool", [WebSearchTool, NotionQueryTool, TtsSpeakTool])
async def test_what_is_not_configured_is_said_with_what_to_do(tool: type, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    made: Tool = (
        TtsSpeakTool(SpeechSynthesizer(workspace, ApiClient()))
        if tool is TtsSpeakTool
        else tool(ApiClient())
    )
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
    brave: FakeWebService, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    tool, settings = WebSearchTool(ApiClient()), with_search(brave.endpoint)
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
            assert KEY not in str(error.error_output())
    await failure_of(tool, with_search("http://127.0.0.1:1"), {"query": "x"})
    assert KEY not in caplog.text
    assert KEY not in "".join(capfd.readouterr())


# speech


async def test_speech_is_saved_for_sending(eleven: FakeWebService, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    tool = TtsSpeakTool(SpeechSynthesizer(workspace, ApiClient()))
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
    eleven: FakeWebService, tmp_path: Path, answer: Response, kind: str
) -> None:
    eleven.queued.append(answer)
    workspace = Workspace(tmp_path)
    tool = TtsSpeakTool(SpeechSynthesizer(workspace, ApiClient(), max_audio_bytes=300_000))
    error = await failure_of(tool, with_voice(eleven.endpoint), {"text": "x", "name": "n"})
    assert error.kind == kind
    assert list((tmp_path / ".choirtmp/send").iterdir()) == []
    workspace.close()


async def test_a_short_limit_of_the_voice_is_waited_for_once(
    eleven: FakeWebService, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    tool, settings = (
        TtsSpeakTool(SpeechSynthesizer(workspace, ApiClient())),
        with_voice(eleven.endpoint),
    )
    busy = {"detail": {"status": "system_busy", "message": "busy"}}
    eleven.then(429, busy, {"Retry-After": "0"})
    assert (await use(tool, settings, {"text": "x", "name": "n"}))["bytes"] == 200_004
    eleven.then(429, busy, {"Retry-After": "0"})
    eleven.then(429, busy, {"Retry-After": "7"})
    error = await failure_of(tool, settings, {"text": "x"})
    assert error.error_output()["retry_after_s"] == 7
    workspace.close()


async def test_audio_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: 999\r\n\r\nabc"
    workspace = Workspace(tmp_path)
    tool = TtsSpeakTool(SpeechSynthesizer(workspace, ApiClient()))
    async with raw_server(head) as endpoint:
        error = await failure_of(tool, with_voice(endpoint), {"text": "x"})
    assert error.kind == "outcome_unknown"
    assert list((tmp_path / ".choirtmp/send").iterdir()) == []
    workspace.close()
