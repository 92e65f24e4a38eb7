"""The OpenAPI document names everything there is to call, the agents' verbs too."""

from choir_common.wire.rpc import VERBS
from tests.service.control.world import World


async def test_the_document_describes_the_eight_verbs_with_what_they_take(world: World) -> None:
    document = (await world.get("/v1/openapi.json")).json()
    verbs = {path.removeprefix("/rpc/") for path in document["paths"] if path.startswith("/rpc/")}
    assert verbs == set(VERBS)
    heartbeat = document["paths"]["/rpc/HEARTBEAT"]["post"]
    schema = heartbeat["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert schema.endswith("/HeartbeatRequest") and "Event" in document["components"]["schemas"]
    answer = heartbeat["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    assert answer.endswith("/HeartbeatResponse")
