"""Conversations for questions between agents: who has them, with which rights, and wrong settings."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choir_common.policy import PolicyCall, decide
from choir_common.wire.agent_questions import ASK_TOOL
from choir_common.wire.config import Config
from choir_common.wire.policy import PolicyRule
from choir_control.configuration.agent_questions import add_question_dms, find_question_faults
from choir_control.configuration.people import PersonRegistry
from tests.unit.control.test_pairing import PEOPLE, configure

DM = "ask.main.helper"
PAGE = Path(__file__).parents[3] / "docs/agents.md"


def agents(**may_ask: list[str]) -> dict[str, Any]:
    defaults = {"workspace": "w", "llm": "m", "dm": "desk"}
    return {name: {"defaults": defaults, "may_ask": names} for name, names in may_ask.items()}


def test_each_pair_has_a_conversation_whose_words_decide_nothing() -> None:
    for people in ({}, PEOPLE):
        changes = agents(main=["helper"], helper=[])
        config = add_question_dms(configure(agents=changes, people=people))
        assert config.agents["helper"].conversations == (DM,)
        assert config.agents["main"].conversations == ()
        assert config.dms[DM].gateway == "c"
        registry = PersonRegistry(config, {})
        assert (registry.rank_in(DM), registry.person_in(DM)) == ("guest", None)
        assert not registry.may_decide(DM)
        # a person is asked what is to be decided, in another conversation
        assert registry.find_decider(DM, ("phone", "desk")) in ("phone", "desk")
        assert registry.find_decider("phone", (DM,)) != DM
        assert [*find_question_faults(config)] == []
        assert add_question_dms(config) == config
    unchanged = configure()
    assert add_question_dms(unchanged) is unchanged


def test_wrong_settings_are_named() -> None:
    def faults(config: Config) -> str:
        return "\n".join(find_question_faults(config))

    found = faults(configure(agents=agents(main=["main", "nobody", "helper", "helper"], helper=[])))
    for words in ("'main' is the agent itself", "there is no 'nobody'", "'helper' is named twice"):
        assert f"agents.main.may_ask: {words}" in found
    long = {"a" * 40: ["b" * 40], "b" * 40: []}
    assert "too long together; they may have 59 characters" in faults(
        configure(agents=agents(**long))
    )
    dms = {
        "desk": {"gateway": "c", "user_id": "me"},
        "phone": {"gateway": "c", "user_id": "x"},
        "ask.me": {"gateway": "c", "user_id": "y"},
    }
    assert faults(configure(dms=dms)).startswith("dms.ask.me: names that begin with ask.")
    gateways = {"tg": {"type": "telegram", "secret": "t"}}
    dms = {"desk": {"gateway": "tg", "user_id": "7"}}
    only_telegram = configure(agents=agents(main=["helper"], helper=[]), gateways=gateways, dms=dms)
    assert "questions need a gateway of type console" in faults(only_telegram)
    assert add_question_dms(only_telegram) is only_telegram


def test_the_settings_of_the_page_are_valid_and_its_rule_asks() -> None:
    page = PAGE.read_text()
    [block] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    said = json.loads(block)["agents"]
    config = configure(agents=agents(**{name: it["may_ask"] for name, it in said.items()}))
    assert [*find_question_faults(config)] == []
    assert DM in add_question_dms(config).dms and f"`{DM}`" in page
    [rule] = re.findall(r"`(\{\"action\".*?\}\})`", page)
    rules = (PolicyRule.model_validate_json(rule),)
    now = datetime(2026, 11, 29, tzinfo=UTC)
    for asked, action in (("helper", "ask"), ("other", "allow")):
        call = PolicyCall("main", ASK_TOOL, "edge", "user", {"agent": asked, "question": "?"})
        assert decide(rules, call, now, needs_approval=False).action == action
