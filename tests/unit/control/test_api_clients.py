"""Conversations of clients of the OpenAI-compatible API: who has them, and with which rights."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from choir_common.wire.api_clients import MAX_CLIENT_NAME, client_dm
from choir_control.configuration.api_clients import ApiClient, add_clients
from choir_control.configuration.people import PersonRegistry
from tests.unit.control.test_pairing import PEOPLE, configure

NOW = datetime(2026, 6, 1, tzinfo=UTC)
APP = ApiClient("app", b"digest", None, (), ("chat",), NOW)
DM = "api.app.main"


def test_a_client_has_a_conversation_with_each_agent_beside_the_others() -> None:
    config, owners, people = add_clients(configure(), [APP])
    assert (owners, people) == ({DM: "app"}, {})
    assert config.agents["main"].conversations == ("phone", DM)
    registry = PersonRegistry(config, {})
    assert registry.rank_in(DM) == "user" and not registry.is_admin(DM)
    assert len(client_dm("a" * MAX_CLIENT_NAME, "a" * 41)) == 64


@pytest.mark.parametrize(
    "changes",
    [
        {"revoked_at": NOW},
        {"person": "Eve"},  # no longer in config.json
        {"agents": ("helper",)},
        {"scopes": ("embeddings", "transcriptions")},  # no agent's work
        {"name": "taken"},  # a conversation of config.json
    ],
)
def test_a_client_that_may_not_talk_has_none(changes: dict[str, Any]) -> None:
    own = {"gateway": "c", "user_id": "x"}
    dms = {"desk": {"gateway": "c", "user_id": "me"}, "phone": own, "api.taken.main": own}
    config = configure(dms=dms)
    assert add_clients(config, [replace(APP, **changes)]) == (config, {}, {})


def test_a_client_has_the_rights_of_its_person_and_is_asked_nothing_for_others() -> None:
    config, _, people = add_clients(configure(people=PEOPLE), [replace(APP, person="Ada")])
    registry = PersonRegistry(config, people)
    assert registry.person_in(DM) == "Ada" and registry.is_admin(DM)
    assert registry.find_decider("phone", (DM,)) == "desk"
    assert registry.find_decider(DM, ("desk",)) == DM
