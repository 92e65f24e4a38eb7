"""Whatever a request holds, choird answers it and changes no schema: rows S1 and S7 of the fault matrix.

The cases come from choird's own OpenAPI document. A few per route here; twenty thousand by `make nightly`.
"""

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from choir_common.bus.client import Bus
from choir_common.http.transport import make_client
from choir_common.postgres.pool import Database
from choir_local.nats import EmbeddedNats
from tests.service.control.world import OPERATOR_TOKEN, World, make_world
from tests.service.memory.servers import NATS_TOKEN, bus, database, dsn, nats, postgres
from tests.support.servers import PASSWORD

__all__ = ["bus", "database", "dsn", "nats", "postgres"]

CASES = int(os.environ.get("CHOIR_TEST_FUZZ_CASES", "140"))
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

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture
async def world(dsn: str, nats: EmbeddedNats, database: Database, bus: Bus) -> AsyncIterator[World]:
    async with make_world(dsn, PASSWORD, nats.url, NATS_TOKEN, database, bus) as made:
        await made.start()
        yield made


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


async def send(client: httpx2.AsyncClient, method: str, path: str, case: dict[str, Any]) -> int:
    """Send a case and return its status; of a stream only the head is read."""
    headers = {"Content-Type": "application/json"} if "content" in case else {}
    with contextlib.suppress(httpx2.ReadTimeout):  # a stop that waits for its agent
        async with client.stream(method, path, headers=headers, timeout=3.0, **case) as answer:
            if answer.status_code >= 500:
                assert answer.status_code == 503 and "/dms/" in path, (
                    method,
                    path,
                    case,
                    (await answer.aread())[:500],
                )
            return answer.status_code
    return 0


async def operations(world: World) -> list[Any]:
    document = (await world.get("/v1/openapi.json")).json()
    schema = schemathesis.openapi.from_dict(document)
    found = [result.ok() for result in schema.get_all_operations()]
    assert len(found) >= 20
    return found


async def test_no_case_made_from_the_openapi_document_is_a_failure_of_ours(
    world: World, database: Database
) -> None:
    before = await schema_of(database)
    routes = await operations(world)
    hand = await world.agent()
    await hand.begin()
    operator = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
    each = max(1, CASES // len(routes))
    sent: Counter[str] = Counter()
    async with make_client(world.tcp) as client:
        for number, operation in enumerate(routes):
            mine = operation.path.startswith(("/rpc", "/events"))
            client.headers.update(hand.headers if mine else operator)
            await hand.flush()  # who is silent for three seconds is lost
            await try_route(client, operation, number, each, sent)
            await world.session(hand.spec.session_id)
    assert len(sent) == len(routes) and min(sent.values()) >= 1
    print(f"{sent.total()} cases at {len(routes)} routes")
    assert await schema_of(database) == before
    assert (await world.get("/readyz")).status_code == 200


async def try_route(
    client: httpx2.AsyncClient, operation: Any, number: int, cases: int, sent: Counter[str]
) -> None:
    """Send a route what its own description makes, and what nothing describes."""
    method = operation.method.upper()

    @seed(number)
    @settings(
        max_examples=cases, database=None, deadline=None, suppress_health_check=[*HealthCheck]
    )
    @given(made=operation.as_strategy(), body=JSON, wild=st.booleans())
    async def one(made: Any, body: Any, wild: bool) -> None:
        path = operation.path
        for name, value in (made.path_parameters or {}).items():
            path = path.replace("{" + name + "}", quote(str(value), safe="") or "x")
        case: dict[str, Any] = {}
        if method in ("POST", "PUT", "PATCH"):
            fits = not wild and isinstance(made.body, dict | list | str | int | float | bool)
            case["content"] = json.dumps(made.body if fits else body, default=str).encode()
        if made.query:
            case["params"] = {name: str(value) for name, value in dict(made.query).items()}
        sent[f"{method} {operation.path}"] += 1
        if path != "/rpc/TERMINATE_SELF" or wild:
            await send(client, method, path, case)

    # one.hypothesis.inner_test is what pytest's plugin would wrap; here the loop is ours already
    inner, loop = one.hypothesis.inner_test, asyncio.get_running_loop()

    def blocking(**given_: Any) -> None:
        asyncio.run_coroutine_threadsafe(inner(**given_), loop).result(30)

    one.hypothesis.inner_test = blocking
    await asyncio.to_thread(one)


async def test_sql_in_ids_filters_names_and_bodies_changes_no_schema(
    world: World, database: Database
) -> None:
    before = await schema_of(database)
    rows = await database.fetchval("SELECT count(*) FROM choir_control.sessions")
    client_headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
    async with make_client(world.tcp, headers=client_headers) as client:
        for operation in await operations(world):
            if operation.path.startswith(("/rpc", "/events")):
                continue
            for text in SQL:
                path, case = operation.path, {}
                while "{" in path:
                    start, rest = path.split("{", 1)
                    path = start + quote(text, safe="") + rest.split("}", 1)[1]
                names = [one.name for one in operation.query] or ["cursor", "agent_id", "limit"]
                case["params"] = dict.fromkeys(names, text)
                if operation.method.upper() in ("POST", "PUT", "PATCH"):
                    fields = ("agent_id", "name", "dm", "llm", "workspace", "text", "digest", "job")
                    case["content"] = json.dumps(dict.fromkeys(fields, text)).encode()
                await send(client, operation.method.upper(), path, case)
    assert await schema_of(database) == before
    assert await database.fetchval("SELECT count(*) FROM choir_control.sessions") == rows
