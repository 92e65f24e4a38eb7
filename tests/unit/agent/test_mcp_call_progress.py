"""Progress of MCP calls extends their deadline, within a limit, and only while it grows."""

import asyncio

import pytest

from choir_agent.mcp_client.call_progress import CallProgress, longest_s, progress_text


async def run_with_progress(numbers: list[float], pause_s: float, timeout_s: float) -> CallProgress:
    progress = CallProgress("index", lambda: None)
    async with progress.limit(timeout_s):
        for number in numbers:
            await asyncio.sleep(pause_s)
            await progress.record(number, 10, "reading")
    return progress


async def test_growing_progress_extends_the_deadline() -> None:
    progress = await run_with_progress([1, 2, 3, 4], pause_s=0.5, timeout_s=1.5)
    assert progress.text == "index: 4 of 10, reading"


@pytest.mark.parametrize("numbers", [[1.0] * 100, [float("nan")] * 100])
async def test_a_number_that_does_not_grow_is_no_progress(numbers: list[float]) -> None:
    with pytest.raises(TimeoutError):
        await run_with_progress(numbers, pause_s=0.05, timeout_s=0.2)


async def test_progress_without_end_is_limited() -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        await run_with_progress([*map(float, range(10_000))], pause_s=0.01, timeout_s=0.2)
    assert longest_s(0.2) == 1.0 <= asyncio.get_running_loop().time() - began + 0.01


def test_invisible_characters_of_a_message_are_spelled_out() -> None:
    assert progress_text("t", 1, None, "a\u202e\nb") == "t: 1, a<U+202E> b"
