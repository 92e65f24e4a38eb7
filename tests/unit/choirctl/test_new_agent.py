"""What `agent init` adds so that an agent can be started, and what `agent delete` takes away."""

from pathlib import Path
from typing import Any

import pytest

from choir_common.errors import InvalidRequest
from choir_common.wire.config import Config
from choirctl.start.agent_entries import AgentOptions, entries_to_add, entries_to_remove

HOME = Path("/home/x/.choir.d")


def a_config(**sections: Any) -> Config:
    return Config.model_validate({"agents": {}, "workspaces": {}} | sections)


def added(
    config: Config, agent: str = "helper", options: AgentOptions | None = None
) -> dict[str, Any]:
    entries = entries_to_add(config, HOME, agent, options or AgentOptions())
    return {f"{section}.{name}": entry for section, name, entry in entries}


def after(config: Config, agent: str = "helper") -> Config:
    """Return the configuration with the agent in it; that it can be read is a part of the test."""
    shape = config.model_dump(mode="json", exclude_defaults=True)
    for section, name, entry in entries_to_add(config, HOME, agent, AgentOptions()):
        shape.setdefault(section, {})[name] = entry
    return Config.model_validate(shape)


def test_where_there_is_no_console_yet_one_is_added() -> None:
    bot = {"type": "telegram", "secret": "s"}
    config = after(a_config(gateways={"bot": bot}))
    assert config.gateways[config.dms["helper"].gateway].type == "console"
    assert config.agents["helper"].defaults.dm == "helper"


def test_two_agents_of_one_console_are_two_users_of_it() -> None:
    config = after(after(a_config()), "second")
    first, second = config.dms["helper"], config.dms["second"]
    assert first.gateway == second.gateway and first.user_id != second.user_id


def test_taken_names_are_left_alone() -> None:
    there = {"helper": {"path": "/srv/helper"}}
    made = added(a_config(workspaces=there))
    assert made["agents.helper"]["defaults"]["workspace"] == "helper_2"
    assert made["workspaces.helper_2"] == {"path": "/home/x/.choir.d/workspaces/helper_2"}


def test_the_model_is_the_one_that_the_others_think_with() -> None:
    model = {"model": "m", "endpoint": "http://127.0.0.1:1/v1"}
    other = {"defaults": {"workspace": "w", "llm": "mine", "dm": "d"}}
    assert added(a_config())["agents.helper"]["defaults"]["llm"] == "default"
    config = a_config(models={"mine": model}, agents={"main": other})
    assert added(config)["agents.helper"]["defaults"]["llm"] == "mine"
    with pytest.raises(InvalidRequest, match="no model 'x'"):
        added(config, options=AgentOptions(llm="x"))


def test_what_another_agent_uses_too_stays() -> None:
    config = after(a_config())
    assert entries_to_remove(config, "helper") == [
        ("workspaces", "helper"),
        ("dms", "helper"),
        ("agents", "helper"),
    ]
    other = {"workspace": "helper", "llm": "default", "dm": "helper"}
    shape = config.model_dump(mode="json", exclude_defaults=True)
    shape["agents"]["other"] = {"defaults": other}
    assert entries_to_remove(Config.model_validate(shape), "helper") == [("agents", "helper")]
