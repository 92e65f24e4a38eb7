"""All conversations of a session use one lock for their signals."""

import asyncio

import pytest

from choir_control.log.signals.locks import SignalLocks


async def is_free(locks: SignalLocks, dm: str) -> bool:
    """Return whether the lock of a conversation can be taken at once."""

    async def take() -> None:
        async with locks.of(dm):
            pass

    task = asyncio.create_task(take())
    for _ in range(5):
        await asyncio.sleep(0)
    is_taken = task.done()
    task.cancel()
    return is_taken


async def test_conversations_of_one_session_wait_for_each_other_and_others_do_not() -> None:
    locks = SignalLocks()
    locks.join("desk", "phone")
    locks.join("phone", "phone")
    assert locks.conversations_of("phone") == ("phone", "desk")
    for dm in ("phone", "desk"):
        async with locks.of(dm):
            assert not await is_free(locks, "phone")
            assert not await is_free(locks, "desk")
            assert await is_free(locks, "other")
    locks.leave("desk")
    assert locks.conversations_of("phone") == ("phone",)
    async with locks.of("desk"):
        assert await is_free(locks, "phone")


async def test_a_signal_that_waited_while_its_conversation_joined_a_session_takes_that_lock() -> (
    None
):
    locks, order = SignalLocks(), list[str]()

    async def send() -> None:
        async with locks.of("desk"):
            order.append("sent")

    async with locks.of_both("desk", "phone"):
        task = asyncio.create_task(send())
        await asyncio.sleep(0)
        locks.join("desk", "phone")
    async with locks.of("phone"):
        for _ in range(5):
            await asyncio.sleep(0)
        order.append("before")
    await task
    assert order == ["before", "sent"]


@pytest.mark.parametrize("pairs", [[("a", "b"), ("b", "a")], [("a", "a"), ("a", "b")]])
async def test_two_changes_at_once_do_not_deadlock(pairs: list[tuple[str, str]]) -> None:
    locks = SignalLocks()

    async def change(dm: str, home: str) -> None:
        async with locks.of_both(dm, home):
            await asyncio.sleep(0)

    async with asyncio.timeout(60):
        await asyncio.gather(*(change(*pair) for pair in pairs * 3))
