"""Row S1 beside choird: whatever a request to another service holds, it gets an answer that is no failure."""

from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from choir_common.http.client import make_client
from tests.security.doors.every_service import SERVICES, running_door
from tests.security.doors.fuzz import CASES, Case, Fuzz, operations_in

# routes nobody described: what a scanner sends
PATHS = st.text(st.characters(codec="utf-8"), max_size=60).map(lambda text: "/" + quote(text))
# What memory serves: it has no API, so it does not describe itself.
HEALTH = {
    "openapi": "3.1.0",
    "info": {"title": "health", "version": "1"},
    "paths": {
        path: {"get": {"responses": {"200": {"description": "fine"}}}}
        for path in ("/livez", "/readyz", "/metrics")
    },
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")


@pytest.mark.parametrize("service", SERVICES)
async def test_no_case_is_a_failure_of_ours(service: str) -> None:
    async with running_door(service) as door:
        async with make_client(door.endpoint, headers=dict(door.headers)) as client:
            fuzz = Fuzz(client, {"dm": ["console"]})
            described = await client.get("/openapi.json")
            has_api = service != "memory"
            assert described.status_code == (200 if has_api else 404)
            routes = operations_in(described.json() if has_api else HEALTH)
            each = max(1, CASES // (len(routes) + 1))
            for number, operation in enumerate(routes):
                await fuzz.try_route(operation, number, each)
            assert fuzz.not_reached(routes) == []
            for case in stray_cases(each):
                await fuzz.send(case, "stray")
            assert (await client.get("/readyz")).status_code == 200
    print(f"{service}: {fuzz.cases} cases at {len(routes)} routes: {dict(statuses(fuzz))}")


def stray_cases(count: int) -> list[Case]:
    """Return requests for routes that nobody described."""
    found: list[Case] = []

    @settings(
        max_examples=count, database=None, derandomize=True, suppress_health_check=[*HealthCheck]
    )
    @given(method=st.sampled_from(METHODS), path=PATHS, body=st.binary(max_size=100))
    def collect(method: str, path: str, body: bytes) -> None:
        found.append(Case(method, path, body=body if method in ("POST", "PUT", "PATCH") else None))

    collect()
    return found


def statuses(fuzz: Fuzz) -> dict[int, int]:
    """Return how often each status was answered."""
    found: dict[int, int] = {}
    for (_, status), count in fuzz.answers.items():
        found[status] = found.get(status, 0) + count
    return found
