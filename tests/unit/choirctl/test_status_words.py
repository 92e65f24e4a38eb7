"""`status` without -v: words for a person, none of the log's."""

from typing import Any

from choir_common.wire.operator import AgentView, PartStatus, SystemStatus
from choir_common.wire.rpc import ResourceBindings, StatusReport
from choirctl.status_words import agent_words, system_words

EDGE = StatusReport(lane="edge", state="EDGE_IDLE", budget_remaining={"total_session_tokens": 9})
JOB = StatusReport(lane="core:read", state="CORE_REASONING")


def an_agent(**given: Any) -> AgentView:
    plain = dict.fromkeys(("session_id", "epoch", "bindings", "model", "pid"))
    return AgentView(
        **{
            **plain,
            "agent_id": "main",
            "state": "running",
            "started_at": None,
            "last_heartbeat_at": None,
            **given,
        }
    )


def a_system(*parts: PartStatus) -> SystemStatus:
    return SystemStatus(
        ready=all(part.ok for part in parts),
        version="1",
        config_version=1,
        home="/x",
        model="gpt-5-mini",
        parts=parts,
        agents=(),
    )


def test_an_agent_that_waits_and_its_job_are_told_in_plain_words() -> None:
    bindings = ResourceBindings(workspace="main", llm="default", dm="console")
    words = "\n".join(
        agent_words(an_agent(lanes=(EDGE, JOB), bindings=bindings, queued_messages=2))
    )
    assert "main waits for you in the conversation console" in words
    assert "its job read is at work: reasoning" in words and "2 messages wait for it" in words
    for term in ("lane", "edge", "epoch", "tokens", "core:"):
        assert term not in words


def test_every_other_state_says_what_to_do() -> None:
    assert "choirctl agent start main" in agent_words(an_agent(state="stopped"))[0]
    assert "choirctl logs main" in agent_words(an_agent(state="crashed"))[0]
    assert "does not answer" in agent_words(an_agent(suspect=True))[0]


def test_a_part_that_is_down_is_named_with_its_reason() -> None:
    good = PartStatus(name="postgres", ok=True, detail="")
    bad = PartStatus(name="memory", ok=False, detail="it did not answer within 2 s")
    assert system_words(a_system(good)) == ["Choir is ready. It thinks with gpt-5-mini."]
    first, second = system_words(a_system(good, bad))
    assert "not ready: memory is down" in first and "did not answer" in second
