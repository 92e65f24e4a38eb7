"""A user talks with an agent whose core jobs are at work: over the console, and through Telegram."""

import asyncio

import pytest

from choir_testing.telegram import run_fake_telegram
from tests.journey.jobs import SCORE, Talk, check_the_work, leave_the_lists, work_while_talking
from tests.journey.phone import BOT_TOKEN, TELEGRAM_USER, Prepare
from tests.support.stack import ConsoleUser, console_user, running_stack_in_thread

HEAR_S = 180.0


class Ears:
    """Hears one message of a console after the other."""

    def __init__(self, user: ConsoleUser) -> None:
        self._user, self._heard = user, 0

    async def hear(self) -> str:
        """Return the next message; raises AssertionError if none comes in time."""
        try:
            async with asyncio.timeout(HEAR_S), self._user.arrived:
                await self._user.arrived.wait_for(lambda: len(self._user.heard) > self._heard)
        except TimeoutError:
            heard = [it.text[:60] for it in self._user.heard]
            raise AssertionError(
                f"No message {self._heard + 1} within {HEAR_S} s: {heard}"
            ) from None
        self._heard += 1
        return self._user.heard[self._heard - 1].text


@pytest.mark.nightly  # tests/service/agent/test_misbehaving_jobs.py has jobs that hang
async def test_the_edge_lane_answers_while_core_jobs_work_and_one_hangs() -> None:
    async with running_stack_in_thread(SCORE) as stack:
        leave_the_lists(stack)
        async with console_user(stack.url, token=stack.secret("operator-token")) as user:
            await work_while_talking(Talk(user.says, Ears(user).hear))
        await check_the_work(stack)


@pytest.mark.nightly  # test_town_talk.py has jobs and chats through Telegram, too
async def test_the_same_through_telegram() -> None:
    async with run_fake_telegram() as telegram:
        async with running_stack_in_thread(SCORE, prepare=Prepare(telegram.api_url)) as stack:
            leave_the_lists(stack)
            person = telegram.user(TELEGRAM_USER, BOT_TOKEN)

            async def hear() -> str:
                return str((await person.receive(60)).text)

            await work_while_talking(Talk(person.send, hear))
            await check_the_work(stack)
