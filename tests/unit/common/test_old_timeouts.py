"""Timeouts in the clean-up of a cancelled task, which Python before 3.11.4 gets wrong."""

import asyncio
import contextlib

import pytest

import choir_common  # noqa: F401 - the correction


async def test_a_timeout_in_the_clean_up_of_a_cancelled_task_ends_only_what_it_limits() -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(60)
            steps.append("the rest of the clean-up")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["the rest of the clean-up"]


async def test_a_timeout_leaves_another_cancellation_alone() -> None:
    async def work() -> None:
        async with asyncio.timeout(60):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
