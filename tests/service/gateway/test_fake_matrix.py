"""The fake homeserver refuses what the Matrix specification refuses."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import aiohttp
import pytest

from choir_common.wire.model import JsonObject
from choir_testing.matrix import FakeMatrix, FakeRoom, run_fake_matrix

TOKEN = "fake_secret"
V3 = "/_matrix/client/v3"
TEXT: JsonObject = {"msgtype": "m.text", "body": "hello"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeMatrix]:
    async with run_fake_matrix() as matrix:
        yield matrix


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.fixture
def room(fake: FakeMatrix) -> FakeRoom:
    alice = fake.user("alice", TOKEN)
    place = alice.start_room()
    fake.homeserver.set_member(place, alice.bot.user_id, alice.bot.user_id, "join")
    return place


class Caller:
    """A client with a token."""

    def __init__(self, client: aiohttp.ClientSession, fake: FakeMatrix) -> None:
        self._client = client
        self._fake = fake

    async def call(
        self, method: str, path: str, body: JsonObject | None = None, token: str = TOKEN
    ) -> tuple[int, JsonObject]:
        """Return the status and the body of the response."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self._client.request(
            method, self._fake.api_url + path, json=body, headers=headers
        ) as response:
            return response.status, await response.json()

    async def send(
        self, room: FakeRoom, content: JsonObject, *, key: str, event_type: str = "m.room.message"
    ) -> tuple[int, JsonObject]:
        """Send an event."""
        path = f"{V3}/rooms/{quote(room.room_id)}/send/{event_type}/{key}"
        return await self.call("PUT", path, content)


@pytest.fixture
def caller(client: aiohttp.ClientSession, fake: FakeMatrix) -> Caller:
    fake.bot(TOKEN)
    return Caller(client, fake)


async def test_a_call_needs_the_token(caller: Caller) -> None:
    status, answer = await caller.call("GET", f"{V3}/account/whoami")
    assert (status, answer["user_id"]) == (200, "@bot:example.org")
    status, answer = await caller.call("GET", f"{V3}/account/whoami", token="wrong")
    assert (status, answer["errcode"]) == (401, "M_UNKNOWN_TOKEN")
    status, answer = await caller.call("GET", f"{V3}/account/whoami", token="")
    assert (status, answer["errcode"]) == (401, "M_MISSING_TOKEN")


async def test_a_repeated_transaction_has_the_same_event(caller: Caller, room: FakeRoom) -> None:
    first = await caller.send(room, TEXT, key="a")
    assert await caller.send(room, {**TEXT, "body": "other"}, key="a") == first
    assert await caller.send(room, TEXT, key="b") != first
    assert len(list(room.events("m.room.message"))) == 2


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        ({"msgtype": "m.text"}, 400, "M_BAD_JSON"),
        ({"body": "x"}, 400, "M_BAD_JSON"),
        ({**TEXT, "number": 1.5}, 400, "M_BAD_JSON"),
        ({**TEXT, "formatted_body": "<b>x</b>"}, 400, "M_BAD_JSON"),
        ({**TEXT, "body": "x" * 66_000}, 413, "M_TOO_LARGE"),
        ({"msgtype": "m.file", "body": "a.txt"}, 400, "M_BAD_JSON"),
        (
            {**TEXT, "m.relates_to": {"rel_type": "m.thread", "event_id": "$unknown"}},
            400,
            "M_UNKNOWN",
        ),
        (
            {**TEXT, "m.relates_to": {"rel_type": "m.replace", "event_id": "$unknown"}},
            400,
            "M_BAD_JSON",
        ),
    ],
)
async def test_a_wrong_event_is_refused(
    caller: Caller, room: FakeRoom, content: JsonObject, status: int, code: str
) -> None:
    answered, answer = await caller.send(room, content, key="a")
    assert (answered, answer["errcode"]) == (status, code)
    assert list(room.events("m.room.message")) == []


async def test_a_reaction_is_accepted_once(caller: Caller, room: FakeRoom) -> None:
    relation: JsonObject = {"rel_type": "m.annotation", "event_id": "$a", "key": "👀"}
    content: JsonObject = {"m.relates_to": relation}
    assert (await caller.send(room, content, key="a", event_type="m.reaction"))[0] == 200
    status, answer = await caller.send(room, content, key="b", event_type="m.reaction")
    assert (status, answer["errcode"]) == (400, "M_DUPLICATE_ANNOTATION")


async def test_only_members_send_and_only_the_invited_join(
    caller: Caller, fake: FakeMatrix
) -> None:
    place = fake.homeserver.create_room("@alice:example.org")
    status, answer = await caller.send(place, TEXT, key="a")
    assert (status, answer["errcode"]) == (403, "M_FORBIDDEN")
    status, answer = await caller.call("POST", f"{V3}/join/{quote(place.room_id)}", {})
    assert (status, answer["errcode"]) == (403, "M_FORBIDDEN")


async def test_unknown_fields_paths_and_filters_are_refused(caller: Caller) -> None:
    status, answer = await caller.call("POST", f"{V3}/createRoom", {"members": []})
    assert (status, answer["errcode"]) == (400, "M_BAD_JSON")
    status, answer = await caller.call("GET", f"{V3}/unknown")
    assert (status, answer["errcode"]) == (404, "M_UNRECOGNIZED")
    status, answer = await caller.call("GET", f'{V3}/sync?filter={{"rooms":{{}}}}')
    assert (status, answer["errcode"]) == (400, "M_BAD_JSON")
    status, answer = await caller.call("GET", f"{V3}/sync?since=nonsense")
    assert (status, answer["errcode"]) == (400, "M_INVALID_PARAM")


async def test_a_limited_timeline_leads_to_the_history(
    caller: Caller, fake: FakeMatrix, room: FakeRoom
) -> None:
    _, before = await caller.call("GET", f"{V3}/sync")
    since = before["next_batch"]
    for number in range(7):
        fake.user("alice", TOKEN).send(str(number), room=room)
    query = 'filter={"room":{"timeline":{"limit":3}}}'
    _, batch = await caller.call("GET", f"{V3}/sync?since={since}&{query}")
    rooms = batch["rooms"]
    assert isinstance(rooms, dict) and isinstance(rooms["join"], dict)
    joined = rooms["join"][room.room_id]
    assert isinstance(joined, dict) and isinstance(joined["timeline"], dict)
    timeline = joined["timeline"]
    assert timeline["limited"] is True
    path = (
        f"{V3}/rooms/{quote(room.room_id)}/messages?dir=b&from={timeline['prev_batch']}&to={since}"
    )
    _, page = await caller.call("GET", path)
    older, newer = page["chunk"], timeline["events"]
    assert isinstance(older, list) and isinstance(newer, list)
    bodies = [
        event["content"]["body"]
        for event in (*reversed(older), *newer)
        if isinstance(event, dict) and isinstance(event["content"], dict)
    ]
    assert bodies == [str(number) for number in range(7)]
