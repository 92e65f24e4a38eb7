"""A model that misbehaves in every way we could think of: the session survives each, within its budget,
with a clear trail, and the next message is answered (GUARANTEES 10 and S21, for the edge lane)."""

import asyncio
import gzip
import zlib

import psutil
import pytest
from starlette.responses import Response

from choir_common.wire.config import Budgets
from choir_models import call_deadline
from tests.service.agent.scripted_model import Asked, calls, document, endless, says
from tests.service.agent.survival import BUDGETS, survives

READ = ("choir_fs_read", {"path": "notes.txt"})
DEEP = "[" * 200_000
MB = 1024 * 1024


def once(answer: Response, then: str = "Sorry.") -> "OnceThen":
    return OnceThen(answer, then)


class OnceThen:
    """Misbehaves in the first answer of a turn, and then says something."""

    def __init__(self, answer: Response, then: str) -> None:
        self._answer, self._then = answer, then

    def __call__(self, asked: Asked) -> Response:
        return self._answer if asked.turn.answers == 0 else says(self._then)


BAD_CALLS = {
    "an unknown tool": (("choir_rockets_launch", {}), "unknown_tool"),
    "a tool without a name": (("", {}), "unknown_tool"),
    "a name with control characters": (("choir_fs\x00_read\n\x1b[31m", {}), "unknown_tool"),
    "a name in another script": (("чоир_фс_реад​‮", {}), "unknown_tool"),
    "a name of 100 kB": (("x" * 100_000, {}), "unknown_tool"),
    "the name of a path": (("../../etc/passwd", {}), "unknown_tool"),
    "wrong types": (("choir_fs_read", {"path": 7}), "invalid_arguments"),
    "a list": (("choir_fs_read", [1, 2]), "malformed_arguments"),
    "a lone number": (("choir_fs_read", "1e999"), "malformed_arguments"),
    "fields nobody asked for": (
        ("choir_fs_read", {"path": "a", "sudo": True}),
        "invalid_arguments",
    ),
    "nothing": (("choir_fs_read", ""), "invalid_arguments"),
    "half of it": (("choir_fs_read", '{"path": "a'), "malformed_arguments"),
    "words": (("choir_fs_read", "the notes, please"), "malformed_arguments"),
    "a lone surrogate": (("choir_fs_read", '{"path": "\\ud800"}'), "malformed_arguments"),
    "a NUL": (("choir_fs_read", {"path": "a\x00b"}), "bad_path"),
    "not a number": (("choir_fs_read", '{"path": NaN}'), "malformed_arguments"),
    "depth": (("choir_fs_read", DEEP), "malformed_arguments"),
    "5 MB": (("choir_fs_read", {"path": "a" * 5 * MB}), "malformed_arguments"),
}


@pytest.mark.parametrize(("call", "code"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
async def test_a_bad_call_is_refused_with_a_reason(call: tuple[str, object], code: str) -> None:
    async with survives(once(calls(call))) as agent:
        assert (await agent.goes_on()).text == "Sorry."
        (result,) = agent.results()
        assert result.status in ("refused", "error")
        assert result.output["code"] == code


async def test_the_same_id_twice_is_two_calls() -> None:
    twice = calls(READ, READ, ids=["same", "same"])
    async with survives(once(twice)) as agent:
        (agent.control.workspace / "notes.txt").write_text("tea")
        await agent.goes_on()
        results = agent.results()
    assert len({result.call_id for result in results}) == 2
    assert [result.status for result in results] == ["success", "success"]


async def test_an_endless_loop_of_calls_ends_with_the_turns_budget() -> None:
    async with survives(lambda _: calls(READ)) as agent:
        reply = await agent.goes_on()
        assert reply.kind == "error"
        assert "max_steps_per_turn" in reply.text
        assert len(agent.outputs()) == BUDGETS.max_steps_per_turn


async def test_two_hundred_calls_in_one_output_are_refused_as_a_whole() -> None:
    async with survives(once(calls(*[READ] * 200))) as agent:
        reply = await agent.goes_on()
        assert reply.kind == "error"
        assert "max_tool_calls_per_turn" in reply.text
        assert agent.results() == []


async def test_calls_spread_over_many_outputs_are_counted_together() -> None:
    budgets = Budgets(max_steps_per_turn=100, max_tool_calls_per_turn=20)
    async with survives(lambda _: calls(*[READ] * 6), budgets) as agent:
        assert "max_tool_calls_per_turn" in (await agent.goes_on()).text
        assert len(agent.results()) == 18


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b"], ids=["empty", "blank", "invisible"])
async def test_a_model_without_words_is_told_of(text: str) -> None:
    async with survives(lambda _: says(text)) as agent:
        reply = await agent.goes_on()
        assert reply.text


async def test_an_answer_of_10_mb_is_cut() -> None:
    async with survives(lambda _: says("tea " * (10 * MB // 4))) as agent:
        reply = await agent.goes_on()
        assert reply.text.startswith("tea tea")


NO_COMPLETIONS = {
    "no choices": {"choices": []},
    "nothing": {},
    "null": None,
    "a list": [],
    "no message": {"choices": [{}]},
    "calls that are none": {"choices": [{"message": {"tool_calls": [{"function": None}]}}]},
    "calls that are text": {"choices": [{"message": {"tool_calls": "choir_fs_read"}}]},
    "an error with 200": {"error": {"message": "overloaded", "code": 529}},
}  # fmt: skip


@pytest.mark.parametrize("content", NO_COMPLETIONS.values(), ids=NO_COMPLETIONS.keys())
async def test_what_is_no_completion_ends_in_words_for_the_user(content: object) -> None:
    async with survives(lambda _: document(content)) as agent:
        reply = await agent.goes_on()
        assert reply.kind == "error"


async def test_usage_that_makes_no_sense_spoils_no_answer() -> None:
    usage = {"prompt_tokens": "many", "completion_tokens": -3, "prompt_tokens_details": []}
    content = {"choices": [{"message": {"content": "Hello."}}], "usage": usage}
    async with survives(lambda _: document(content)) as agent:
        assert (await agent.goes_on()).text == "Hello."
        assert all(o.prompt_tokens >= 0 <= o.completion_tokens for o in agent.outputs())


async def test_a_trickle_without_end_ends_with_the_limit_of_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_deadline, "MAX_CALL_S", 1.0)
    async with survives(lambda _: endless(b"tea ", 0.01), model_timeout_ms=1_000) as agent:
        reply = await agent.goes_on()
        assert reply.kind == "error"


class Scales:
    """Weighs this process while the block runs."""

    def __init__(self) -> None:
        self._before = self._peak = psutil.Process().memory_info().rss

    async def __aenter__(self) -> "Scales":
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            self._peak = max(self._peak, psutil.Process().memory_info().rss)
            await asyncio.sleep(0.01)

    @property
    def grown_mb(self) -> float:
        return (self._peak - self._before) / MB


async def test_a_flood_without_end_takes_no_more_memory_than_an_answer_may() -> None:
    flood = b"tea " * (MB // 4)
    async with Scales() as scales:
        async with survives(lambda _: endless(flood, 0), model_timeout_ms=3_000) as agent:
            assert (await agent.goes_on()).kind == "error"
    assert scales.grown_mb < 200


async def test_an_answer_that_swells_when_unpacked_takes_no_more_either() -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    bomb = b"".join(packer.compress(b" " * MB) for _ in range(1_000)) + packer.flush()

    def script(_: Asked) -> Response:
        headers = {"Content-Encoding": "gzip"}
        return Response(bomb, media_type="application/json", headers=headers)

    async with Scales() as scales:
        async with survives(script) as agent:
            assert (await agent.goes_on()).kind == "error"
    assert scales.grown_mb < 200


async def test_an_answer_that_is_packed_is_read() -> None:
    def script(_: Asked) -> Response:
        plain = says("Hello.")
        packed = gzip.compress(bytes(plain.body))
        headers = {"Content-Encoding": "gzip"}
        return Response(packed, media_type="application/json", headers=headers)

    async with survives(script) as agent:
        assert (await agent.goes_on()).text == "Hello."
