"""What a heartbeat costs: counted on the wire between choird and Postgres, not timed."""

import asyncio

from tests.support.load import HttpConnection, LoadAgent, running_load, sample_event
from tests.support.postgres import PASSWORD
from tests.support.postgres_proxy import postgres_proxy

BEATS = 100
MOST_EACH = 2


async def test_heartbeats_cost_two_round_trips_at_most_and_share_them_when_they_come_at_once(
    dsn: str,
) -> None:
    async with postgres_proxy(dsn) as proxy, running_load(30, proxy.dsn, PASSWORD) as crowd:
        before = proxy.round_trips
        for number in range(BEATS):
            member = crowd.members[number % len(crowd.members)]
            await member.send(member.beat([sample_event(number), sample_event(number)]))
        each = (proxy.round_trips - before) / BEATS
        assert 1 <= each <= MOST_EACH

        before = proxy.round_trips
        for number in range(10):
            beats = [(member, member.beat([sample_event(number)])) for member in crowd.members]
            await asyncio.gather(*(member.send(beat) for member, beat in beats))
        assert proxy.round_trips - before < 10 * len(crowd.members) / 2

        # in a shared statement a fork is refused, and all others are stored
        forker, *others = crowd.members
        start = forker.head
        await forker.send(forker.beat([sample_event(1)]))
        forker.head = start
        beats = [(member, member.beat([sample_event(2)])) for member in crowd.members]
        answers = await asyncio.gather(*(line_of(member).send(beat) for member, beat in beats))
        assert [status for status, _ in answers] == [409] + [200] * len(others)
        for member in others:
            await member.send(member.beat([sample_event(3)]))


def line_of(member: LoadAgent) -> HttpConnection:
    assert member.line is not None
    return member.line
