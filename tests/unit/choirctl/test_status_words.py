"""`status` without -v: words for a person, none of the log's."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from choir_common.i18n import READER_LANGUAGE
from choir_common.wire.operator import AgentView, ComponentStatus, SystemStatus
from choir_common.wire.rpc import ModelFailure, ModelInUse, ResourceBindings, StatusReport
from choirctl.output.printing import print_rows
from choirctl.output.status_text import agent_lines, system_lines
from choirctl.output.views import agent_rows

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


def a_system(*parts: ComponentStatus) -> SystemStatus:
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
        agent_lines(an_agent(lanes=(EDGE, JOB), bindings=bindings, queued_messages=2))
    )
    assert "main waits for you in the conversation console" in words
    assert "job read: thinking" in words and "2 messages wait for it" in words
    for term in ("lane", "edge", "epoch", "tokens", "core:"):
        assert term not in words


def test_a_model_that_is_away_is_told_once_with_since_when_and_what_mends_it() -> None:
    words = "gpt-x at http://box/v1: connection refused. Check that this address is up."
    since = datetime.now(UTC) - timedelta(minutes=5, seconds=3)
    failure = ModelFailure(model="gpt-x", since=since, words=words)
    lanes = [lane.model_copy(update={"model_failure": failure}) for lane in (EDGE, JOB)]
    told = [line for line in agent_lines(an_agent(lanes=tuple(lanes))) if "not responded" in line]
    assert told == [f"  Its model has not responded for 5m: {words}"]
    assert not any("not responded" in line for line in agent_lines(an_agent(lanes=(EDGE, JOB))))


def test_every_other_state_says_what_to_do() -> None:
    assert "choirctl agent start main" in agent_lines(an_agent(state="stopped"))[0]
    assert "choirctl logs main" in agent_lines(an_agent(state="crashed"))[0]
    assert "does not respond" in agent_lines(an_agent(suspect=True))[0]


def test_a_part_that_is_down_is_named_with_its_reason() -> None:
    good = ComponentStatus(name="postgres", ok=True, detail="")
    bad = ComponentStatus(name="memory", ok=False, detail="it did not answer within 2 s")
    assert system_lines(a_system(good)) == ["Choir is ready. Model: gpt-5-mini."]
    first, second = system_lines(a_system(good, bad))
    assert "not ready: memory is down" in first and "did not answer" in second


def test_the_model_of_an_agent_is_told_with_its_context() -> None:
    small = ModelInUse(name="default", model="qwen3:4b", context_window=8_192, is_small=True)
    large = ModelInUse(name="deep", model="gpt-5", context_window=128_000)
    lanes = (
        EDGE.model_copy(update={"model": small}),
        JOB.model_copy(update={"model": large}),
        JOB.model_copy(update={"lane": "core:other", "model": large}),
    )
    assert [line for line in agent_lines(an_agent(lanes=lanes)) if "context" in line] == [
        "  Its model qwen3:4b has a context of 8,192 tokens: it gets short instructions and fewer tools.",
        "  Its model gpt-5 has a context of 128,000 tokens.",
    ]


@pytest.mark.parametrize(
    ("language", "running", "crashed"),
    [("de", "läuft", "abgestürzt"), ("en", "running", "crashed")],
)
def test_states_are_in_the_language_of_the_reader(
    language: str, running: str, crashed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    token = READER_LANGUAGE.set(language)
    try:
        print_rows(agent_rows([an_agent(), an_agent(agent_id="other", state="crashed")]))
    finally:
        READER_LANGUAGE.reset(token)
    words = [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert words == [running, crashed]
