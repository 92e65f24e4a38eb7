"""What a heartbeat costs: counted on the wire between choird and Postgres, not timed."""

from tests.support.crowd import running_crowd, work
from tests.support.postgres_proxy import postgres_proxy
from tests.support.servers import PASSWORD

BEATS = 200
MOST_EACH = 2


async def test_a_heartbeat_with_events_costs_at_most_two_round_trips(dsn: str) -> None:
    async with postgres_proxy(dsn) as proxy, running_crowd(3, proxy.dsn, PASSWORD) as crowd:
        before = proxy.round_trips
        for number in range(BEATS):
            member = crowd.members[number % len(crowd.members)]
            await member.send(member.beat([work(number), work(number)]))
        each = (proxy.round_trips - before) / BEATS
    assert 1 <= each <= MOST_EACH
