"""The OpenAPI document names everything there is to call, the agents' verbs too."""

import re
from collections.abc import Iterator
from typing import Any

import choir_client.operations
import choirctl.api.operations
from choir_client.operation import Nothing, Operation, Stream
from choir_common.wire.rpc import VERBS
from scripts.docs.http_api import openapi_document
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


async def test_the_reference_of_the_site_has_the_same_routes(world: World) -> None:
    document = (await world.get("/v1/openapi.json")).json()
    assert openapi_document()["paths"].keys() == document["paths"].keys()


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


async def test_every_operation_of_the_clients_is_in_the_document_with_its_types(
    world: World,
) -> None:
    paths = (await world.get("/v1/openapi.json")).json()["paths"]
    named: list[Operation[Any] | Stream] = []
    for module in (choir_client.operations, choirctl.api.operations):
        named += [it for it in vars(module).values() if isinstance(it, Operation | Stream)]
    assert len(named) > 60
    for item in named:
        method = "get" if isinstance(item, Stream) else item.method.lower()
        described = paths[item.path][method]
        [(status, answer)] = [
            (code, it) for code, it in described["responses"].items() if code[0] == "2"
        ]
        if isinstance(item, Stream):
            continue
        if item.response is Nothing:
            assert status == "204"
            continue
        schema = answer["content"]["application/json"]["schema"]
        assert list(names_of(schema)) == [re.sub(r"\W", "_", item.response.__name__)], item.path
        content = described.get("requestBody", {}).get("content", {}).get("application/json", {})
        bodies = list(names_of(content.get("schema", {})))
        assert bodies == ([item.body.__name__] if item.body else []), item.path


def names_of(schema: Any) -> Iterator[str]:
    """Yield the models that a schema refers to, or is."""
    match schema:
        case {"$ref": ref}:
            yield ref.rpartition("/")[2]
        case {"anyOf": choices}:
            for choice in choices:
                yield from names_of(choice)
        case {"title": title}:
            yield title
