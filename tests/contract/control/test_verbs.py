"""The eight verbs mean the same over Unix sockets, HTTP and HTTPS: one suite, every door."""

import asyncio
import hashlib
import json

import pytest

from choir_common.bus import subjects
from choir_common.bus.client import Bus, Endpoint
from choir_common.wire.browser import BrowseRequest, BrowseResponse, OpenPage
from choir_common.wire.memory_search import EnsureSpace, MemoryUpsert, MemoryWritten
from choir_common.wire.messages import Empty
from choir_common.wire.rpc import VERBS
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import MODEL_KEY, World
from tests.support.nightly import nightly_from


# test_agent_client.py has each verb over http and https
@pytest.fixture(params=nightly_from(2, ["agent socket", "host socket", "http", "https"]))
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def agent(world: World, door: str) -> AgentHand:
    """The agent `main`, through each of the doors."""
    spec = (await world.agent()).spec
    scheme = door if door in ("http", "https") else None
    assert (spec.http.endpoint.split(":")[0] if spec.http else None) == scheme
    return world.hand(spec, world.endpoint if door == "host socket" else None)


async def ask(agent: AgentHand, verb: str, **body: object) -> dict[str, object]:
    answer = await agent.post(verb, json.dumps(body).encode())
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    found: dict[str, object] = answer.json()
    return found


async def test_init_hello_tells_where_the_log_ends(world: World, agent: AgentHand) -> None:
    answer = await agent.hello()
    assert (answer.status, answer.epoch, answer.continues) == ("fresh", 1, None)
    assert answer.resource_bindings.model_dump(exclude_none=True) == {
        "workspace": "main",
        "llm": "default",
        "dm": "console",
    }
    assert (answer.head_rev, answer.head_hash, answer.tail_events) == (0, "0" * 64, ())
    assert answer.config.model.model == "scripted" and answer.config_version == 1


async def test_init_hello_of_another_agent_or_epoch_is_fenced(agent: AgentHand) -> None:
    for wrong in (b'"main"', b'"epoch":1'):
        body = agent.hello_body().replace(wrong, {b'"main"': b'"other"'}.get(wrong, b'"epoch":2'))
        answer = await agent.post("INIT_HELLO", body)
        assert (answer.status_code, answer.json()["code"]) == (409, "fenced")


async def test_get_secrets_answers_the_bound_models_secret_and_no_other(agent: AgentHand) -> None:
    assert await ask(agent, "GET_SECRETS", resources=["key"]) == {"secrets": {"key": MODEL_KEY}}
    refused = await agent.post("GET_SECRETS", b'{"resources":["key","tg"]}')
    assert refused.status_code == 403 and MODEL_KEY not in refused.text


async def test_heartbeat_makes_events_durable(agent: AgentHand) -> None:
    await agent.begin()
    agent.say("hello")
    answer = await agent.post("HEARTBEAT", agent.heartbeat())
    assert answer.json() == {"ack_rev": 2, "config_version_latest": 1}


async def test_request_approval_keeps_one_pending_row_per_call(
    world: World, agent: AgentHand
) -> None:
    body = {"request_type": "tool", "call_id": "c1", "payload": {"name": "x", "n": 1e16}}
    first = await ask(agent, "REQUEST_APPROVAL", **body)
    again = await asyncio.gather(*(ask(agent, "REQUEST_APPROVAL", **body) for _ in range(4)))
    assert first["status"] == "pending" and all(answer == first for answer in again)
    [listed] = (await world.get("/v1/approvals")).json()["items"]
    assert listed["approval_id"] == first["approval_id"] and listed["payload"]["name"] == "x"


async def test_report_status_is_what_the_operator_sees(world: World, agent: AgentHand) -> None:
    report = {"lane": "edge", "state": "THINKING", "budget_remaining": {"steps": 3}}
    assert await ask(agent, "REPORT_STATUS", **report) == {"ack": True}
    [lane] = (await world.get("/v1/agents/main")).json()["lanes"]
    assert (lane["lane"], lane["state"]) == ("edge", "THINKING")


async def test_fetch_dynamic_config_answers_only_what_is_newer(agent: AgentHand) -> None:
    older = await ask(agent, "FETCH_DYNAMIC_CONFIG", current_config_version=0)
    assert older["config"] and older["config_version"] == 1
    same = await ask(agent, "FETCH_DYNAMIC_CONFIG", current_config_version=1)
    assert same == {"config_version": 1, "config": None}


async def test_execute_host_tool_acts_for_the_agent_of_the_lease(
    agent: AgentHand, bus: Bus
) -> None:
    seen: list[object] = []

    async def ensure(space: EnsureSpace) -> Empty:
        return Empty()

    async def upsert(write: MemoryUpsert) -> MemoryWritten:
        seen.append((write.agent_id, write.text))
        return MemoryWritten(document_id="d", key=None, operation="inserted", embedded="queued")

    async def browse(request: BrowseRequest) -> BrowseResponse:
        assert isinstance(request.action, OpenPage)
        url = request.action.url
        seen.append((request.agent_id, url))
        return BrowseResponse(url=url, status=200, title="t", text="words", truncated=False)

    async with bus.serve(
        "choir-stand-in",
        "1.0.0",
        Endpoint(subjects.ensure_memory(), EnsureSpace, ensure),
        Endpoint(subjects.upsert_memory(), MemoryUpsert, upsert),
        Endpoint(subjects.browse_page(), BrowseRequest, browse),
    ):
        write = {"operation": "insert", "text": "tea"}
        done = await ask(
            agent, "EXECUTE_HOST_TOOL", tool_name="choir.memory.upsert", call_id="c", input=write
        )
        assert done["status"] == "success"
        page = {"action": {"action": "open", "url": "http://example.org/"}}
        done = await ask(
            agent, "EXECUTE_HOST_TOOL", tool_name="choir.web.browse", call_id="d", input=page
        )
        assert done["output"]["text"] == "words"  # type: ignore[index]
        for forged in ({"agent_id": "other"}, {"call_id": "x"}, {"target_agent": "other"}):
            refused = await ask(
                agent,
                "EXECUTE_HOST_TOOL",
                tool_name="choir.memory.upsert",
                call_id="e",
                input={**write, **forged},
            )
            assert refused["status"] == "error"
            assert refused["output"]["code"] == "bad_input"  # type: ignore[index]
    assert seen == [("main", "tea"), ("main", "http://example.org/")]
    unknown = await ask(
        agent, "EXECUTE_HOST_TOOL", tool_name="choir.host.shell", call_id="f", input={}
    )
    assert unknown["output"]["code"] == "not_found"  # type: ignore[index]


async def test_terminate_self_ends_the_session_when_a_stop_was_asked(
    world: World, agent: AgentHand
) -> None:
    await agent.begin()
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    assert (await agent.next_signal()).body.kind == "shutdown"
    assert await ask(agent, "TERMINATE_SELF", reason="asked") == {"ack": True}
    refused = await agent.post("HEARTBEAT", agent.heartbeat())
    assert refused.status_code == 409
    world.runtime.die("main", 0)
    assert (await stopping).status_code == 200


async def test_signals_come_over_the_same_door(world: World, agent: AgentHand) -> None:
    await agent.begin()
    async with agent.signals() as stream:
        accepted = await world.say("hello", "1")
        signal = await asyncio.wait_for(anext(stream), 60)
    assert signal.body.inbox_id == accepted.inbox_id  # type: ignore[union-attr]


async def test_a_stream_that_broke_goes_on_after_the_last_signal_seen(
    world: World, agent: AgentHand
) -> None:
    await agent.begin()
    for number in ("1", "2"):
        await world.say(f"message {number}", number)
    async with agent.signals() as stream:
        first = await asyncio.wait_for(anext(stream), 60)
    async with agent.signals(after=first.seq) as stream:
        second = await asyncio.wait_for(anext(stream), 60)
    assert second.seq > first.seq
    assert (first.body.text, second.body.text) == ("message 1", "message 2")  # type: ignore[union-attr]


async def test_errors_are_problem_documents_with_a_stable_code(agent: AgentHand) -> None:
    wrong = await agent.post("HEARTBEAT", b"{")
    assert wrong.headers["content-type"] == "application/problem+json"
    assert (wrong.status_code, wrong.json()["code"]) == (400, "bad_input")
    unfit = await agent.post("TERMINATE_SELF", b'{"reason": 7}')
    words = "The body is invalid: reason: Input should be a valid string."
    assert (unfit.status_code, unfit.json()["detail"]) == (400, words)
    large = await agent.post("HEARTBEAT", b"x" * 4_000_001)
    assert (large.status_code, large.json()["code"]) == (413, "too_large")


async def test_every_verb_refuses_strangers_and_wants_a_request_id(agent: AgentHand) -> None:
    for verb in VERBS:
        none = await agent.post(verb, b"{}", Authorization="")
        forged = await agent.post(verb, b"{}", Authorization="Bearer " + "x" * 43)
        elsewhere = await agent.post(verb, b"{}", **{"X-Choir-Session-Id": "ses_other"})
        assert {a.status_code for a in (none, forged, elsewhere)} == {401}, verb
        unnamed = await agent.post(verb, b"{}", **{"X-Choir-Request-Id": ""})
        assert unnamed.status_code == 400, verb
    unknown = await agent.post("SELF_DESTRUCT", b"{}")
    told = f"There is no verb 'SELF_DESTRUCT'; valid verbs: {', '.join(VERBS)}."
    assert (unknown.status_code, unknown.json()["detail"]) == (404, told)


async def test_only_a_digest_of_the_token_is_in_the_database(
    world: World, agent: AgentHand
) -> None:
    digest = hashlib.sha256(agent.spec.lease_token.encode()).digest()
    row = await world.database.fetchrow("SELECT * FROM choir_control.sessions")
    assert row is not None and row["token_sha256"] == digest
    assert agent.spec.lease_token not in repr(dict(row))
