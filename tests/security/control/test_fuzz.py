"""Whatever a request holds, choird answers it and changes no schema: rows S1 and S7 of the fault matrix.

The cases come from choird's own OpenAPI document. A few per route here; twenty thousand by `make
nightly`.
"""

import json
from typing import Any
from urllib.parse import quote

from choir_common.http.client import make_client
from choir_common.postgres.pool import Database
from tests.security.doors.fuzz import CASES, EVERY_CASE, Case, Fuzz, operations_in
from tests.service.control.world import OPERATOR_TOKEN, World

SQL = [
    "'; DROP SCHEMA choir_control CASCADE; --",
    '" ; DROP TABLE choir_control.sessions; --',
    "x'); DELETE FROM choir_control.session_events; --",
    "1 OR 1=1",
    "' UNION SELECT rolname, rolpassword FROM pg_authid --",
    "$1; CREATE ROLE intruder SUPERUSER; --",
    "$$; COPY (SELECT 1) TO PROGRAM 'id'; $$",
    'choir_main"; CREATE TABLE choir_control.intruder (); --',
    "main; SET search_path TO pg_catalog",
    "%27%3B%20DROP%20TABLE%20choir_control.inbox%3B--",
    "\\'; ALTER TABLE choir_control.sessions DROP COLUMN epoch; --",
    "\u02bc; DROP TABLE choir_control.outbox; --",
    "a\x00'; DROP TABLE choir_control.signals; --",
]

OPERATOR = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
JSON_BODY = {"Content-Type": "application/json"}
# the gateway of these tests answers on the bus alone, so what choird hands on to its console is away; and
# no memory service runs beside it
AWAY = ("/dms/", "/memory", "/collections")


async def schema_of(database: Database) -> list[tuple[Any, ...]]:
    """Return every table, column, index, role and function there is."""
    rows = await database.fetch(
        """
        SELECT 'column' AS kind, table_schema || '.' || table_name AS name, column_name || data_type AS what
        FROM information_schema.columns WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
        UNION ALL SELECT 'index', schemaname || '.' || indexname, indexdef FROM pg_indexes
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')
        UNION ALL SELECT 'role', rolname, rolsuper::text FROM pg_roles
        UNION ALL SELECT 'schema', nspname, '' FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'
        UNION ALL SELECT 'function', proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        ORDER BY 1, 2, 3
        """
    )
    return [tuple(row) for row in rows]


async def operations(world: World) -> list[Any]:
    found = operations_in((await world.get("/v1/openapi.json")).json())
    assert len(found) >= 20
    return found


async def test_no_case_made_from_the_openapi_document_is_a_failure_of_ours(
    world: World, database: Database
) -> None:
    before = await schema_of(database)
    routes = await operations(world)
    hand = await world.agent()
    await hand.begin()
    known = {
        "agent_id": ["never"],  # the other one has to live to the end
        "session_id": [hand.spec.session_id],
        "dm": ["console"],
        "name": ["spare"],
    }
    async with make_client(world.tcp) as client, hand.beating():
        fuzz = Fuzz(client, known, away=AWAY)
        for number, operation in enumerate(routes):
            mine = operation.path.startswith(("/rpc", "/events"))
            client.headers.update(hand.headers if mine else OPERATOR)
            await fuzz.try_route(operation, number, max(1, CASES // len(routes)))
        # These refuse everything without a signature or the origin of the page; test_hook_attacks and
        # test_web have requests that they accept.
        assert fuzz.not_reached(routes) == ["POST /v1/hooks/{name}", "POST /v1/web/session"]
    print(f"{fuzz.cases} cases at {len(routes)} routes")
    assert await schema_of(database) == before
    assert await world.missing() == {}
    assert (await world.session(hand.spec.session_id))["status"] == "active"
    assert (await world.verify(hand.spec.session_id))["ok"]


async def test_sql_in_ids_filters_names_and_bodies_changes_no_schema(
    world: World, database: Database
) -> None:
    before = await schema_of(database)
    rows = await database.fetchval("SELECT count(*) FROM choir_control.sessions")
    async with make_client(world.tcp, headers=OPERATOR) as client:
        fuzz = Fuzz(client, away=AWAY)
        for number, operation in enumerate(await operations(world)):
            if operation.path.startswith(("/rpc", "/events")):
                continue
            # each of them at every third route, and all everywhere in `make nightly`
            for text in SQL if EVERY_CASE else SQL[number % 3 :: 3]:
                path, content = operation.path, None
                while "{" in path:
                    start, rest = path.split("{", 1)
                    path = start + quote(text, safe="") + rest.split("}", 1)[1]
                names = [one.name for one in operation.query] or ["cursor", "agent_id", "limit"]
                if operation.method.upper() in ("POST", "PUT", "PATCH"):
                    fields = ("agent_id", "name", "dm", "llm", "workspace", "text", "digest", "job")
                    content = json.dumps(dict.fromkeys(fields, text)).encode()
                query = dict.fromkeys(names, text)
                await fuzz.send(Case(operation.method.upper(), path, query, JSON_BODY, content))
        assert fuzz.cases >= len(SQL) * 20
    assert await schema_of(database) == before
    assert await database.fetchval("SELECT count(*) FROM choir_control.sessions") == rows
