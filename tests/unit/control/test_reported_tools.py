"""The tools that an agent reports for its jobs, and the refusal of names that are none of them."""

import pytest

from choir_common.clock import SystemClock
from choir_common.errors import NotFound
from choir_common.wire.core_jobs import NewJob, ToolConstraints
from choir_common.wire.rpc import ResourceBindings, StatusRequest
from choir_control.agents.sessions.reports import LaneStatusRegistry
from choir_control.conversations.job_requests import check_tools
from choir_control.log.leases.store import Lease

TOOLS = ("choir.fs.read", "choir.fs.write", "mcp.git.log")
LEASE = Lease("ses_1", "main", 1, b"", ResourceBindings(llm="m", dm="console", workspace="w"))


def job(*tools: str) -> NewJob:
    return NewJob(task="add", tool_constraints=ToolConstraints(allowed_tools=tools))


def test_the_tools_of_a_session_are_those_of_the_report_of_its_home_conversation() -> None:
    reports = LaneStatusRegistry(SystemClock())
    assert reports.job_tools_of("main", "ses_1") == ()
    reports.post(LEASE, StatusRequest(lane="edge", state="EDGE_IDLE", job_tools=TOOLS))
    reports.post(LEASE, StatusRequest(lane="edge:second", state="EDGE_IDLE"))
    assert reports.job_tools_of("main", "ses_1") == TOOLS
    assert reports.job_tools_of("main", "ses_2") == ()


def test_an_unknown_tool_is_refused_with_the_nearest_and_all_names() -> None:
    check_tools("main", job(*TOOLS), TOOLS)
    # not reported yet: the agent itself checks them
    check_tools("main", job("choir.fs.raed"), ())
    with pytest.raises(NotFound) as raised:
        check_tools("main", job("choir.fs.raed", "choir.fs.write", "x" * 500), TOOLS)
    assert "'choir.fs.raed' (did you mean choir.fs.read?)" in raised.value.message
    assert f"There are: {', '.join(TOOLS)}." in raised.value.message
    assert len(raised.value.message) < 400
