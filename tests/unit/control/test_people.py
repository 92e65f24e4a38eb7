"""Who the users of conversations are, and what they may do."""

from typing import Any

import pytest

from choir_common.wire.config import Config
from choir_common.wire.speakers import GroupMember
from choir_control.configuration.people import PersonRegistry, Rank
from choir_control.configuration.validation import find_faults
from choir_control.conversations.commands.table import commands_for

SIGNAL_GROUP = f"group.{'A' * 59}="
GATEWAYS = {
    "d": {"type": "discord"},
    "g": {"type": "telegram"},
    "h": {"type": "console"},
    "i": {"type": "signal"},
    "s": {"type": "slack"},
    "m": {"type": "matrix"},
}
DMS = {
    "ada": {"gateway": "g", "user_id": "1", "admin": False},
    "ada-phone": {"gateway": "h", "user_id": "1"},
    "bob": {"gateway": "g", "user_id": "2"},
    "eve": {"gateway": "g", "user_id": "3", "admin": True},
    "root": {"gateway": "g", "user_id": "4", "admin": True},
    "nobody": {"gateway": "g", "user_id": "5"},
}
GROUP = {"gateway": "g", "chat_id": "-100"}
CHANNEL = {"gateway": "s", "chat_id": "C012AB3CD"}
PEOPLE = {
    "Ada": {
        "role": "owner",
        "timezone": "Asia/Tokyo",
        "language": "ja",
        "identities": [{"gateway": "g", "user": "1"}],
    },
    "Bob": {"identities": [{"gateway": "g", "user": "2"}]},
    "Eve": {"role": "guest", "identities": [{"gateway": "g", "user": "3"}]},
}


def directory(
    people: dict[str, Any], linked: dict[tuple[str, str], str], **groups: dict[str, Any]
) -> PersonRegistry:
    dms = DMS | groups
    config = Config.model_validate(
        {"agents": {}, "workspaces": {}, "gateways": GATEWAYS, "dms": dms, "people": people},
        strict=False,
    )
    return PersonRegistry(config, linked)


@pytest.mark.parametrize(
    ("dm", "without", "with_people"),
    [
        ("ada", "user", "admin"),
        ("ada-phone", "user", "member"),
        ("bob", "user", "member"),
        # the role of a person takes precedence over the flag of the conversation
        ("eve", "admin", "guest"),
        ("root", "admin", "admin"),
        ("nobody", "user", "member"),
        ("unknown", "user", "member"),
    ],
)
def test_people_decide_on_rights_where_they_are_configured(
    dm: str, without: Rank, with_people: Rank
) -> None:
    assert directory({}, {}).rank_in(dm) == without
    assert directory(PEOPLE, {}).rank_in(dm) == with_people


def test_a_linked_identity_is_the_same_person_unless_config_json_says_otherwise() -> None:
    linked = {("h", "1"): "Ada", ("g", "3"): "Ada", ("g", "5"): "Gone"}
    people = directory(PEOPLE, linked)
    assert people.person_in("ada-phone") == "Ada" and people.is_admin("ada-phone")
    assert people.person_in("eve") == "Eve"
    assert people.person_in("nobody") is None


def test_a_request_of_somebody_who_does_not_decide_goes_to_an_admin() -> None:
    people = directory(PEOPLE, {})
    assert people.find_decider("ada", ("bob", "ada")) == "ada"
    assert people.find_decider("bob", ("bob", "ada")) == "ada"
    assert people.find_decider("bob", ("bob", "nobody")) == "ada"
    assert directory({}, {}).find_decider("bob", ("bob", "root")) == "bob"


def test_agents_are_told_who_writes() -> None:
    sender = directory(PEOPLE, {}).find_sender("ada")
    assert sender is not None
    assert (sender.name, sender.role, sender.timezone, sender.language) == (
        *("Ada", "owner"),
        *("Asia/Tokyo", "ja"),
    )
    assert directory(PEOPLE, {}).find_sender("nobody") is None


@pytest.mark.parametrize(
    ("people", "fault"),
    [
        ({"Bob": PEOPLE["Bob"]}, "people: nobody has the role owner"),
        (
            {"Ada": PEOPLE["Ada"], "Bob": {"identities": [{"gateway": "g", "user": "1"}]}},
            "people.Bob.identities[0]: this user is people.Ada already",
        ),
        (
            {"Ada": {"role": "owner", "identities": [{"gateway": "x", "user": "1"}]}},
            "people.Ada.identities[0].gateway: there is no 'x' in gateways",
        ),
    ],
)
def test_an_identity_belongs_to_one_person_and_somebody_owns_choir(
    people: dict[str, Any], fault: str
) -> None:
    assert any(line.startswith(fault) for line in find_faults(directory(people, {}).config))


def test_the_commands_of_each_rank() -> None:
    names = {
        rank: {row.typed_form for row in commands_for(rank)}
        for rank in ("admin", "user", "member", "guest")
    }
    assert names["guest"] == {"/help", "/status"}
    assert names["guest"] < names["member"] < names["user"] < names["admin"]
    for refused in ("/approve", "/reject", "/revoke", "/continue", "/cost", "/reset", "/forget"):
        assert refused in names["user"] and refused not in names["member"]
    for refused in ("/stop", "/restart", "/model llm", "/recall"):
        assert refused in names["user"] and refused not in names["member"]
    for allowed in ("/cancel", "/inject", "/cores", "/approvals", "/schedule add"):
        assert allowed in names["member"]


@pytest.mark.parametrize(
    ("user_id", "without", "with_people"),
    [
        ("1", "member", "admin"),
        ("2", "member", "member"),
        # the role of a person takes precedence over the flag of the own conversation
        ("3", "admin", "guest"),
        ("4", "admin", "admin"),
        ("5", "member", "member"),
        ("99", "guest", "guest"),
    ],
)
def test_in_a_group_everybody_has_the_own_rights(
    user_id: str, without: Rank, with_people: Rank
) -> None:
    author = GroupMember(user_id=user_id, name="x")
    for people, rank in (({}, without), (PEOPLE, with_people)):
        registry = directory(people, {}, team=GROUP)
        assert registry.rank_of("team", author) == rank
        # the group itself decides on nothing, so that an admin is asked
        assert registry.rank_in("team") == registry.rank_of("team", None) == "guest"
        assert registry.find_decider("team", ("team", "nobody")) != "team"


def test_agents_are_told_who_speaks_in_a_group() -> None:
    registry = directory(PEOPLE, {("g", "9"): "Bob"}, team=GROUP)
    bob = registry.find_sender("team", GroupMember(user_id="9", name="Bobby"))
    assert bob is not None and (bob.display_name, bob.name, bob.role) == ("Bobby", "Bob", "member")
    stranger = registry.find_sender("team", GroupMember(user_id="99", name="Ada"))
    assert stranger is not None
    assert (stranger.display_name, stranger.name, stranger.role) == ("Ada", "", "guest")
    nobody = registry.find_sender("team")
    assert nobody is not None and nobody.is_outsider


@pytest.mark.parametrize(
    ("groups", "fault"),
    [
        ({"x": {"gateway": "g"}}, "dms.x: name either a user (user_id) or a group (chat_id)"),
        ({"x": GROUP | {"user_id": "1"}}, "dms.x: name either a user"),
        ({"x": GROUP | {"admin": True}}, "dms.x.admin: a group is never an admin"),
        (
            {"x": GROUP | {"gateway": "h"}},
            "dms.x.chat_id: only a telegram or discord or slack or matrix or signal gateway has groups",
        ),
        ({"x": GROUP | {"chat_id": "100"}}, "dms.x.chat_id: '100' is not a group's id"),
        ({"x": GROUP | {"topic": "general"}}, "dms.x.topic: 'general' is not a topic's id"),
        ({"x": CHANNEL | {"chat_id": "-100"}}, "dms.x.chat_id: '-100' is not a channel's id"),
        ({"x": CHANNEL | {"topic": "5"}}, "dms.x.topic: '5' is not a thread's id"),
        ({"x": {"gateway": "s", "user_id": "C1"}}, "dms.x.user_id: 'C1' is the id of a group"),
        (
            {"x": {"gateway": "d", "chat_id": "-100"}},
            "dms.x.chat_id: '-100' is not a channel's id, such as 1234567890123456789",
        ),
        (
            {"x": {"gateway": "i", "user_id": SIGNAL_GROUP}},
            f"dms.x.user_id: '{SIGNAL_GROUP}' is the id of a group",
        ),
        (
            {"x": {"gateway": "i", "chat_id": SIGNAL_GROUP, "topic": "1"}},
            "dms.x.topic: '1' is not possible: Signal's groups have no topics",
        ),
        (
            {"x": {"gateway": "m", "chat_id": "#team:example.org", "topic": "5"}},
            "dms.x.chat_id: '#team:example.org' is not a room's id, such as !abc:example.org",
        ),
        (
            {"x": {"gateway": "m", "chat_id": "!a:b", "topic": "5"}},
            "dms.x.topic: '5' is not a thread's",
        ),
        (
            {"x": {"gateway": "m", "user_id": "!a:b"}},
            "dms.x.user_id: '!a:b' is the id of a group; write chat_id",
        ),
        ({"x": GROUP, "y": GROUP}, "dms.y: this group or topic is already dms.x"),
        ({"x": {"gateway": "g", "user_id": "6", "topic": "1"}}, "dms.x: topic and answers are for"),
        (
            {"x": GROUP, "root": DMS["nobody"], "eve": DMS["bob"]},
            "dms.x: nobody could approve what a group asks for",
        ),
    ],
)
def test_a_wrong_group_is_refused(groups: dict[str, Any], fault: str) -> None:
    assert any(line.startswith(fault) for line in find_faults(directory({}, {}, **groups).config))
    right = directory({}, {}, x=GROUP, y=GROUP | {"topic": "7"})
    assert not any(line.startswith("dms.") for line in find_faults(right.config))
