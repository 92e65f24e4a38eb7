"""What the gateway's token opens at control: row S25."""

import pytest

from choir_common.http.client import make_client
from tests.security.control.test_doors import operator_routes
from tests.service.control.world import GATEWAY_TOKEN, OPERATOR_TOKEN, World

FILE = "/v1/outbox/1/files/0"
"""Not in the OpenAPI document: only the gateway uses it."""


async def test_the_gateways_token_opens_no_operator_route(world: World) -> None:
    # a browser signs in with a link or the operator token in the body, for which it needs no token
    routes = [it for it in await operator_routes(world) if it != ("POST", "/v1/web/session")]
    assert len(routes) >= 60
    headers = {"Authorization": f"Bearer {GATEWAY_TOKEN}"}
    async with make_client(world.tcp, headers=headers) as client:
        for method, path in [*routes, ("GET", "/v1/openapi.json"), ("GET", "/metrics")]:
            url = path.replace("{agent_id}", "main").replace("{dm}", "console")
            assert (await client.request(method, url)).status_code == 401, (method, path)


TOKENS = ((GATEWAY_TOKEN, 404), (OPERATOR_TOKEN, 404), ("wrong", 401), (None, 401))


async def test_it_opens_the_files_of_messages(world: World, subtests: pytest.Subtests) -> None:
    for token, status in TOKENS:
        with subtests.test(token=token):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with make_client(world.tcp, headers=headers) as client:
                assert (await client.get(FILE)).status_code == status
