"""Which conversation a chat takes place in, among those that an agent holds or would hold."""

from typing import Literal

import pytest

from choir_common.errors import Conflict
from choir_common.wire.operator import DmView
from choirctl.chat.dm_selection import default_dm


def a_dm(
    name: str,
    agent: str | None,
    kind: Literal["telegram", "console"] = "console",
    *,
    bound: bool = True,
) -> DmView:
    return DmView(name=name, gateway=kind, type=kind, admin=True, agent_id=agent, bound=bound)


def test_a_chat_takes_place_where_an_agent_answers_now() -> None:
    phone = a_dm("phone", "main", "telegram")
    assert default_dm([phone, a_dm("console", None, bound=False), a_dm("desk", "helper")]) == "desk"
    assert default_dm([a_dm("console", "a", bound=False), a_dm("desk", "b")]) == "desk"


def test_the_console_comes_first_among_several() -> None:
    assert default_dm([a_dm("a", "x"), a_dm("console", "main"), a_dm("b", "y")]) == "console"


def test_a_stopped_agents_dm_is_taken_where_none_answers() -> None:
    assert default_dm([a_dm("console", "main", bound=False), a_dm("spare", None)]) == "console"


def test_with_nobody_on_the_console_the_refusal_says_who_talks_where_and_the_way_here() -> None:
    dms = [a_dm("phone", "main", "telegram"), a_dm("console", None, bound=False)]
    with pytest.raises(Conflict, match=r"main talks on Telegram \(DM phone\)") as refused:
        default_dm(dms)
    assert "choirctl agent start main --dm console" in refused.value.message


def test_with_no_dm_at_all_the_refusal_says_how_to_get_one() -> None:
    with pytest.raises(Conflict, match="choirctl agent init"):
        default_dm([])
