"""What a heartbeat costs: counted on the wire between choird and Postgres, not timed."""

import asyncio

from tests.support.load import HttpConnection, LoadAgent, running_load, sample_event
from tests.support.postgres import PASSWORD
from tests.support.postgres_proxy import postgres_proxy

BEATS = 200
MOST_EACH = 2


async def test_a_heartbeat_with_events_costs_at_most_two_round_trips(dsn: str) -> None:
    async with postgres_proxy(dsn) as proxy, running_load(3, proxy.dsn, PASSWORD) as crowd:
        before = proxy.round_trips
        for number in range(BEATS):
            member = crowd.members[number % len(crowd.members)]
            await member.send(member.beat([sample_event(number), sample_event(number)]))
        each = (proxy.round_trips - before) / BEATS
    assert 1 <= each <= MOST_EACH


async def test_heartbeats_of_many_that_come_at_once_share_round_trips(dsn: str) -> None:
    async with postgres_proxy(dsn) as proxy, running_load(30, proxy.dsn, PASSWORD) as crowd:
        before = proxy.round_trips
        for number in range(10):
            beats = [(member, member.beat([sample_event(number)])) for member in crowd.members]
            await asyncio.gather(*(member.send(beat) for member, beat in beats))
        assert proxy.round_trips - before < 10 * len(crowd.members) / 2


async def test_in_a_shared_statement_a_fork_is_refused_and_all_others_are_stored(dsn: str) -> None:
    async with running_load(20, dsn, PASSWORD) as crowd:
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
