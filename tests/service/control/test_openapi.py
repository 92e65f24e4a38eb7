"""The OpenAPI document names everything there is to call, the agents' verbs too."""

from choir_common.wire.rpc import VERBS
from tests.service.control.world import World
from tests.support.openapi import schemes, unresolved


async def test_the_document_describes_the_eight_verbs_with_what_they_take(world: World) -> None:
    document = (await world.get("/v1/openapi.json")).json()
    verbs = {path.removeprefix("/rpc/") for path in document["paths"] if path.startswith("/rpc/")}
    assert verbs == set(VERBS)
    heartbeat = document["paths"]["/rpc/HEARTBEAT"]["post"]
    schema = heartbeat["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert schema.endswith("/HeartbeatRequest") and "Event" in document["components"]["schemas"]
    answer = heartbeat["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    assert answer.endswith("/HeartbeatResponse")


async def test_every_reference_resolves_and_every_route_says_who_may_use_it(world: World) -> None:
    document = (await world.get("/v1/openapi.json")).json()
    assert unresolved(document) == set()
    bring = document["paths"]["/v1/agents/{agent_id}/memory/import"]["post"]
    body = bring["requestBody"]["content"]["application/json"]["schema"]
    kinds = body["properties"]["records"]["items"]["discriminator"]["mapping"]
    assert kinds["knowledge"] == "#/components/schemas/KnowledgeRecord"
    asked = schemes(document)
    for path in document["paths"]:
        if path == "/v1/hooks/{name}":
            assert asked[path] == {"hookSignature"}
        elif path.startswith("/v1/"):
            assert asked[path] == {"operatorToken"}, path
        elif path.startswith("/rpc/") or path == "/events":
            assert asked[path] == {"leaseToken"}, path
        else:
            assert path in ("/livez", "/readyz") and path not in asked
    declared = document["components"]["securitySchemes"]
    assert declared.pop("hookSignature")["type"] == "apiKey"
    assert {scheme["scheme"] for scheme in declared.values()} == {"bearer"}
