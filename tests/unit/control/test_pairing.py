"""Rules of pairing: which conversations users get, their names and rights, and the codes."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from choir_common.errors import RateLimited
from choir_common.wire.channel_config import DmConfig
from choir_common.wire.channel_types import CHANNEL_TYPES
from choir_common.wire.config import Config
from choir_common.wire.model import RESOURCE_NAME_PATTERN
from choir_common.wire.pairing import MAX_USER_NAME, clean_user_name, paired_dm
from choir_common.wire.speakers import GroupMember
from choir_control.configuration.pairing import PairedUser, add_paired
from choir_control.configuration.people import PersonRegistry
from choir_control.configuration.validation import find_faults
from choir_control.conversations.pairing.codes import (
    MAX_TRIES,
    TRY_TIME_S,
    WaitingUser,
    WrongTries,
    decision_buttons,
    find_waiting,
    format_code,
    new_code,
    parse_decision,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
EVE = PairedUser("tg-12", "tg", "12", "telegram", "main", "guest", "Eve", "operator", NOW)
PEOPLE = {"Ada": {"role": "owner", "identities": [{"gateway": "c", "user": "me"}]}}


def configure(**changes: Any) -> Config:
    defaults = {"workspace": "w", "llm": "m", "dm": "desk"}
    content = {
        "agents": {"main": {"defaults": defaults, "conversations": ["phone"]}},
        "workspaces": {"w": {"path": "/w"}},
        "models": {"m": {"model": "m", "endpoint": "http://127.0.0.1:1/v1", "secret": "k"}},
        "gateways": {
            "c": {"type": "console"},
            "tg": {"type": "telegram", "secret": "t", "pairing": {"agent": "main"}},
        },
        "dms": {
            "desk": {"gateway": "c", "user_id": "me", "admin": True},
            "phone": {"gateway": "tg", "user_id": "7"},
        },
    }
    return Config.model_validate({**content, **changes}, strict=False)


def test_a_paired_user_has_a_conversation_of_the_agent_beside_the_others() -> None:
    config, added = add_paired(configure(), [EVE])
    assert added == {"tg-12": EVE}
    assert config.agents["main"].conversations == ("phone", "tg-12")
    dm = config.dms["tg-12"]
    assert (dm.gateway, dm.user_id, dm.admin) == ("tg", "12", False)
    assert find_faults(config) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"user_id": "7"},
        {"dm": "phone"},
        {"gateway": "gone"},
        {"agent_id": "gone"},
        {"channel_type": "discord"},
    ],
    ids=str,
)
def test_config_json_takes_precedence_and_a_user_of_another_messenger_is_somebody_else(
    changes: dict[str, str],
) -> None:
    assert add_paired(configure(), [replace(EVE, **changes)]) == (configure(), {})  # type: ignore[arg-type]


@pytest.mark.parametrize("people", [{}, PEOPLE])
@pytest.mark.parametrize("role", ["member", "guest"])
def test_a_paired_user_decides_on_nothing_with_and_without_people(
    people: dict[str, Any], role: Any
) -> None:
    config, added = add_paired(configure(people=people), [replace(EVE, role=role)])
    registry = PersonRegistry(config, {}, added)
    assert registry.rank_in("tg-12") == role
    assert not registry.is_admin("tg-12") and not registry.may_decide("tg-12")
    assert registry.find_decider("tg-12", ("desk", "phone")) == "desk"
    sender = registry.find_sender("tg-12")
    assert sender is not None and sender.role == role, "an unknown sender would grant budgets"
    team = DmConfig(gateway="tg", chat_id="-100")
    with_group = config.model_copy(update={"dms": {**config.dms, "team": team}})
    eve = GroupMember(user_id="12", name="Eve")
    assert PersonRegistry(with_group, {}, added).rank_of("team", eve) == role


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"gateways": {"c": {"type": "console", "pairing": {"agent": "main"}}}},
            "gateways.c.pairing: the console has no pairing",
        ),
        (
            {"gateways": {"c": {"type": "console"}, "hook": {"type": "webhook", "secret": "k",
             "api_url": "http://127.0.0.1:1", "pairing": {"agent": "main"}}}},
            "gateways.hook.pairing: a webhook has no pairing",
        ),
        (
            {"gateways": {"c": {"type": "console"}, "tg": {"type": "telegram", "secret": "t",
             "pairing": {"agent": "x"}}}},
            "gateways.tg.pairing.agent: there is no 'x'",
        ),
        (
            {"dms": {"desk": {"gateway": "c", "user_id": "me"}, "phone": {"gateway": "c", "user_id": "x"},
             "tg-12": {"gateway": "c", "user_id": "y"}}},
            "dms.tg-12: with gateways.tg.pairing such names belong to users whom an admin lets in",
        ),
    ],
)  # fmt: skip
def test_a_configuration_that_could_pair_nobody_or_the_wrong_user_is_refused(
    changes: dict[str, Any], fault: str
) -> None:
    assert any(line.startswith(fault) for line in find_faults(configure(**changes)))


def test_a_paired_user_can_move_into_config_json_under_the_same_name() -> None:
    dms = {
        "desk": {"gateway": "c", "user_id": "me"},
        "phone": {"gateway": "tg", "user_id": "7"},
        "tg-12": {"gateway": "tg", "user_id": "12"},
    }
    config = configure(dms=dms)
    assert find_faults(config) == [] and add_paired(config, [EVE]) == (config, {})


MAIL = {
    "type": "email",
    "secret": "k",
    "pairing": {"agent": "main"},
    "email": {"imap_host": "127.0.0.1", "smtp_host": "127.0.0.1", "authserv_id": "mx.test"},
}


def test_an_address_becomes_a_readable_name_that_no_other_user_gets() -> None:
    user, name = "ann@example.org", paired_dm("mail", "ann@example.org")
    assert re.fullmatch(r"mail-ann-example-org-[a-z2-7]{16}", name)
    ids = (
        user,
        "ann-example@org",
        "ann.example@org.",
        f"@{user}",
        "ann@example.org.uk",
        "@:x",
        "1" * 200,
    )
    names = {paired_dm(gateway, it) for it in ids for gateway in ("mail", "mail-ann")}
    assert len(names) == 2 * len(ids)
    assert all(re.fullmatch(RESOURCE_NAME_PATTERN, it) for it in names)
    ann = replace(EVE, dm=name, gateway="mail", user_id=user, channel_type="email")
    gateways = {"c": {"type": "console"}, "mail": MAIL}
    dms = {"desk": {"gateway": "c", "user_id": "me"}, "phone": {"gateway": "c", "user_id": "7"}}
    config = configure(gateways=gateways, dms=dms)
    paired, added = add_paired(config, [ann])
    assert added == {name: ann} and find_faults(paired) == []
    # config.json takes precedence, in any spelling
    known = configure(
        gateways=gateways, dms=dms | {"ann": {"gateway": "mail", "user_id": user.upper()}}
    )
    assert add_paired(known, [ann]) == (known, {})
    stolen = configure(
        gateways=gateways, dms=dms | {name: {"gateway": "mail", "user_id": "eve@x.org"}}
    )
    assert any(
        it.startswith(f"dms.{name}: with gateways.mail.pairing") for it in find_faults(stolen)
    )
    plain = configure(
        gateways=gateways, dms=dms | {"mail-ann": {"gateway": "mail", "user_id": user}}
    )
    assert find_faults(plain) == [], "no address is letters alone"


@pytest.mark.parametrize(
    ("channel", "user_id", "is_possible"),
    [
        ("email", "ann+choir@mail.example.org", True),
        ("email", "Ann@example.org", False),
        ("email", "`ann`@example.org", False),
        ("email", "ann@localhost", False),
        ("email", f"ann@{'x' * 200}.org", False),
        ("matrix", "@ann:example.org:8448", True),
        ("matrix", "@ann_=b/c:example.org", True),
        ("matrix", "@ann:example.org\n", False),
        ("matrix", "@a*n:example.org", False),
        ("whatsapp", "4917012345678", True),
        ("whatsapp", "DE.13491208655302741918", True),
        ("whatsapp", "+4917012345678", False),
    ],
)
def test_only_ids_that_a_channel_can_have_are_paired(
    channel: str, user_id: str, is_possible: bool
) -> None:
    users = CHANNEL_TYPES[channel].paired_users
    assert users is not None and bool(users.fullmatch(user_id)) is is_possible


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("  Zoë  O'Hara-李 ", "Zoë O'Hara-李"),
        ("[me](http://evil.example) @all", "me http evil example all"),
        ("\x1b[2J\u202eeve\u202c\u200b\nadmin", "2J eve admin"),
        ("*_`x`_*\ud800🎼", "x"),
        ("x" * 500, "x" * MAX_USER_NAME),
    ],
)
def test_a_name_is_one_line_without_markup_links_and_control_characters(
    name: str, cleaned: str
) -> None:
    assert clean_user_name(name) == cleaned


def test_a_code_is_known_in_any_spelling_and_a_button_carries_it() -> None:
    codes = [new_code(), new_code()]
    users = [WaitingUser("tg", code, f"tg-{code}", "", code, NOW) for code in codes]
    assert codes[0] != codes[1] and len(codes[0]) == 8
    assert find_waiting(users, f" {format_code(codes[1]).lower()} ") is users[1]
    assert find_waiting(users, "AAAAAAAA\udcff") is None
    allow, refuse = (parse_decision(it.data) for it in decision_buttons(codes[0]))
    assert allow is not None and (allow.code, allow.verdict) == (codes[0], "allow")
    assert refuse is not None and refuse.verdict == "refuse"
    assert parse_decision("a:xxx:y") is None


def test_after_wrong_codes_their_author_waits_ten_minutes_and_nobody_else() -> None:
    class HandClock:
        now_s = 0.0

        def monotonic(self) -> float:
            return self.now_s

    clock = HandClock()
    tries = WrongTries(clock)  # type: ignore[arg-type]
    for _ in range(MAX_TRIES):
        tries.check("dm a")
        tries.add("dm a")
    with pytest.raises(RateLimited):
        tries.check("dm a")
    tries.check("dm b")
    clock.now_s = TRY_TIME_S
    tries.check("dm a")
