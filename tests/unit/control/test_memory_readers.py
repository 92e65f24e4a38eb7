"""Whose memory a conversation reads: by person, if the configuration or several people ask for it."""

from collections.abc import Mapping

import pytest

from choir_common.wire.config import Config
from choir_common.wire.memory_search import MemoryReader
from choir_control.configuration.memory_readers import MemoryReaders
from choir_control.configuration.people import Identity, PersonRegistry

PEOPLE = {
    "ada": {"role": "owner", "identities": [{"gateway": "console", "user": "operator"}]},
    "bob": {"role": "member", "identities": [{"gateway": "bot", "user": "7"}]},
}


def make_readers(
    setting: str | None = None,
    *further: str,
    people: bool = True,
    linked: Mapping[Identity, str] | None = None,
) -> MemoryReaders:
    agent = {
        "defaults": {"workspace": "main", "llm": "default", "dm": "console"},
        "conversations": list(further),
        "memory_between_people": setting,
    }
    config = Config.model_validate(
        {
            "agents": {"main": agent},
            "workspaces": {"main": {"path": "/w"}},
            "dms": {
                "console": {"gateway": "console", "user_id": "operator", "admin": True},
                "phone": {"gateway": "bot", "user_id": "7"},
                "tablet": {"gateway": "bot", "user_id": "8"},
            },
            "people": PEOPLE if people else {},
        },
        strict=False,
    )
    return MemoryReaders(PersonRegistry(config, linked or {}))


ADA = MemoryReader(conversations=("console",), with_older=True)
BOB = MemoryReader(conversations=("phone",))
TABLET = MemoryReader(conversations=("tablet",))


@pytest.mark.parametrize(
    ("readers", "served"),
    [
        (make_readers(None), ("console",)),
        (make_readers(None, "phone", people=False), ("console", "phone")),
        (make_readers("shared", "phone"), ("console", "phone")),
        (make_readers(None, "tablet", linked={("bot", "8"): "ada"}), ("console", "tablet")),
    ],
    ids=["one conversation", "no people", "shared", "one person"],
)
def test_memory_is_shared(readers: MemoryReaders, served: tuple[str, ...]) -> None:
    for dm in served:
        assert readers.find("main", dm, served=served) is None
    assert readers.list_all("main", served) == ()
    assert readers.shares("main", "console", "console", served=served)


def test_several_people_have_separate_memories() -> None:
    readers = make_readers(None, "phone", "tablet")
    assert readers.find("main", "console", served=()) == ADA
    assert readers.find("main", "phone", served=()) == BOB
    assert set(readers.list_all("main", ())) == {ADA, BOB, TABLET}
    assert not readers.shares("main", "phone", "console", served=())


def test_a_person_who_has_left_stays_separate() -> None:
    readers = make_readers(None)
    assert readers.find("main", "console", served=("console", "phone")) == ADA
    # also a conversation that is not configured any more
    assert readers.find("main", "console", served=("console", "gone")) == ADA
    assert readers.find("main", "phone", served=(), of_other=True) == BOB


def test_a_link_joins_two_conversations_until_it_is_taken_back() -> None:
    linked = make_readers(None, "phone", "tablet", linked={("bot", "8"): "ada"})
    reader = linked.find("main", "tablet", served=())
    assert reader == MemoryReader(conversations=("console", "tablet"), with_older=True)
    assert linked.shares("main", "tablet", "console", served=())
    unlinked = make_readers(None, "phone", "tablet")
    assert unlinked.find("main", "tablet", served=()) == TABLET


def test_without_people_each_conversation_is_a_person_if_the_agent_says_so() -> None:
    readers = make_readers("separate", "phone", people=False)
    assert readers.find("main", "console", served=()) == ADA
    assert readers.find("main", "phone", served=()) == BOB
