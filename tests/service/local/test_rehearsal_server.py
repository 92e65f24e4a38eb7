"""The rehearsal model over real HTTP, as the openai client and raw callers see it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import httpx2
import openai
import pytest

from choir_local.rehearsal.score import parse_score
from choir_testing.rehearsal import run_rehearsal

TOOLS = [{"type": "function", "function": {"name": "choir_fs_read"}}]
ORDER = '/tool choir.fs.read {"path": "notes.txt"}'


def body(text: str, **more: object) -> dict[str, object]:
    messages = [{"role": "user", "content": text}]
    return {"model": "rehearsal", "messages": messages, "tools": TOOLS, **more}


def client_at(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, trust_env=False)


async def test_the_openai_client_understands_an_answer_and_a_tool_call() -> None:
    async with run_rehearsal() as url, openai.AsyncOpenAI(base_url=url, api_key="any") as client:
        said = await client.chat.completions.create(**body("hello"))  # type: ignore[call-overload]
        assert "rehearsal model" in said.choices[0].message.content
        assert said.usage.total_tokens == said.usage.prompt_tokens + said.usage.completion_tokens
        asked = await client.chat.completions.create(**body(ORDER))  # type: ignore[call-overload]
        (call,) = asked.choices[0].message.tool_calls
        assert asked.choices[0].finish_reason == "tool_calls"
        assert call.function.name == "choir_fs_read"
        assert json.loads(call.function.arguments) == {"path": "notes.txt"}
        assert "rehearsal" in [model.id async for model in client.models.list()]


async def test_a_stream_brings_the_same_in_parts() -> None:
    async with run_rehearsal() as url, openai.AsyncOpenAI(base_url=url, api_key="any") as client:
        arguments, usage = "", None
        wish = {"stream": True, "stream_options": {"include_usage": True}}
        stream = await client.chat.completions.create(**body(ORDER, **wish))  # type: ignore[call-overload]
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                for call in choice.delta.tool_calls or ():
                    arguments += call.function.arguments or ""
        assert json.loads(arguments) == {"path": "notes.txt"}
        assert usage is not None


async def test_embeddings_come_as_floats_and_as_base64() -> None:
    async with run_rehearsal() as url, openai.AsyncOpenAI(base_url=url, api_key="any") as client:
        given = [
            await client.embeddings.create(
                model="rehearsal-embedding", input=["tea", "cars"], dimensions=16, encoding_format=f
            )
            for f in ("float", "base64")
        ]
        assert [len(item.embedding) for item in given[0].data] == [16, 16]
        assert given[0].data[0].embedding != given[0].data[1].embedding


async def test_a_fault_is_served_its_number_of_times_to_the_same_request() -> None:
    fault = {"status": 429, "retry_after_s": 0.5, "times": 2}
    score = parse_score(json.dumps({"otherwise": [{"error": fault}, {"say": "At last."}]}))
    async with run_rehearsal(score) as url, client_at(url) as client:
        answers = [await client.post("/chat/completions", json=body("go")) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [429, 429, 200]
        assert answers[0].headers["retry-after"] == "0.5"
        other = await client.post("/chat/completions", json=body("go, you"))
        assert other.status_code == 429
        counts = (await client.get("/stats")).json()
        assert (counts["requests"], counts["faults"]) == (4, 3)
        assert counts["last_request"]["messages"][0]["content"] == "go, you"


@pytest.mark.parametrize(
    ("kind", "sign"),
    [("body", "not JSON"), ("arguments", "bad call"), ("empty", "none"), ("html", "not JSON")],
)
async def test_a_malformed_answer_is_malformed_once(kind: str, sign: str) -> None:
    score = parse_score(json.dumps({"otherwise": [{"malformed": kind, "say": "Well."}]}))
    async with run_rehearsal(score) as url, client_at(url) as client:
        first = await client.post("/chat/completions", json=body("go"))
        assert (first.status_code, what_is_wrong(first.text)) == (200, sign)
        second = await client.post("/chat/completions", json=body("go"))
        assert second.json()["choices"][0]["message"]["content"] == "Well."


def what_is_wrong(text: str) -> str:
    try:
        choices = json.loads(text)["choices"]
    except ValueError:
        return "not JSON"
    return "bad call" if choices and choices[0]["message"]["tool_calls"] else "none"


async def test_a_cut_answer_ends_the_connection_in_the_middle() -> None:
    score = parse_score(json.dumps({"otherwise": [{"malformed": "cut", "say": "Well."}]}))
    async with run_rehearsal(score) as url, client_at(url) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post("/chat/completions", json=body("go"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "Invalid JSON"),
        ("{}", "messages: Field required"),
        ('{"model": "r", "messages": []}', "at least one message"),
        ('{"model": "r", "messages": [{"role": 7}]}', "messages.0.role"),
    ],
)
async def test_a_bad_request_is_told_what_is_wrong(content: str, reason: str) -> None:
    async with run_rehearsal() as url, client_at(url) as client:
        answer = await client.post("/chat/completions", content=content)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]["message"]


def run_module(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "choir_local.rehearsal", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_score_that_does_not_fit_ends_the_process_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"otherwise": [{"sing": "la"}]}')
    ended = run_module("--port", 0, "--score", tmp_path / "bad.json")
    assert ended.returncode == 1
    assert "otherwise.0.sing" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_hanging_answer_never_comes_and_ends_with_whoever_asked() -> None:
    async with run_rehearsal() as url, client_at(url) as client:
        with pytest.raises(httpx2.ReadTimeout):
            patience = httpx2.Timeout(60, read=0.3)
            await client.post("/chat/completions", json=body("#hang"), timeout=patience)
        async with asyncio.timeout(60):
            while (await client.get("/stats")).json()["chat"] != 1:
                await asyncio.sleep(0.02)
    # leaving the block ends the server, which waits for open requests


async def test_the_usage_tells_what_a_prefix_cache_would_have_spared() -> None:
    async with run_rehearsal() as url, client_at(url) as client:
        first = (await client.post("/chat/completions", json=body("go " * 500))).json()["usage"]
        again = (await client.post("/chat/completions", json=body("go " * 500))).json()["usage"]
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert again["prompt_tokens_details"]["cached_tokens"] >= again["prompt_tokens"] - 1
