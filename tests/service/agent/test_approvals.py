"""A call that a human must allow waits for the decision, and for no other (GUARANTEES 5).

Whether it must be allowed, the tool's manifest says, or a rule of config.json.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

import pytest

from choir_agent.arbiter.approval_client import ApprovalClient
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.arbiter.call_execution import FailureHints
from choir_agent.arbiter.tool_policy import ToolPolicy
from choir_agent.budgets.spending import SpendingReader
from choir_agent.control_client.control_client import ControlClient
from choir_agent.locks.lock_manager import LockManager
from choir_agent.log.log_replicator import LogReplicator
from choir_agent.log.session_state import CallState
from choir_agent.skills.skill_registry import SkillRegistry
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_agent.tools.workspace import Workspace
from choir_agent.working_memory.working_memory import SnapshotWriter, WorkingMemory
from choir_common.clock import SystemClock
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.events import ModelOutput, ToolCall, ToolResultCommitted, UserMessageStarted
from choir_common.wire.grants import EVERY_SCOPE
from choir_common.wire.model import JsonObject
from choir_common.wire.money import SPENT_TOOL
from choir_common.wire.policy import AgentPolicy, PolicyRule
from choir_common.wire.rpc import ApprovalResponse, HostToolRequest, HostToolResponse
from tests.service.agent.control_stand_in import AGENT, DM, SESSION, ControlStandIn, run_control
from tests.support.agent_fakes import FixedHeartbeatSettings, FixedSettings, silent_log

CALL = ToolCall(call_id="call_1", tool="choir.propose.tool", arguments='{"name":"x"}')


class Proposal:
    """A tool that only a human may let run."""

    manifest = ToolManifest(
        LlmView(CALL.tool, "propose", {"type": "object"}),
        RuntimeView(
            timeout_ms=1000,
            side_effect="none",
            idempotent=True,
            needs_approval=True,
            source=TOOL_OUTPUT,
        ),
    )

    def __init__(self, manifest: ToolManifest = manifest) -> None:
        self.manifest = manifest
        self.runs = 0

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        self.runs += 1
        return ToolOutput({"done": True}, "done")


@dataclass
class Desk:
    """An arbiter with a call before it."""

    control: ControlStandIn
    approvals: ApprovalClient
    tool: Proposal
    use: asyncio.Task[None]

    async def asked(self) -> str:
        """Wait until the question has reached control; return its id."""
        await self.control.until(lambda: bool(self.control.approvals))
        return self.control.approvals[CALL.call_id].approval_id

    async def decide(self, approval_id: str, status: str) -> None:
        answer = {"approval_id": approval_id, "status": status}
        self.control.approvals[CALL.call_id] = ApprovalResponse.model_validate(answer)
        self.approvals.resolve(approval_id)
        await self.use

    async def result(self) -> ToolResultCommitted:
        found = lambda: [p for p in self.control.payloads() if isinstance(p, ToolResultCommitted)]  # noqa: E731
        await self.control.until(lambda: bool(found()))
        return found()[0]


@asynccontextmanager
async def open_desk(
    *rules: PolicyRule, manifest: ToolManifest = Proposal.manifest, spent_usd: str = ""
) -> AsyncIterator[Desk]:
    def answer(request: HostToolRequest) -> HostToolResponse:
        output: JsonObject = {"usd": spent_usd} if spent_usd else {"code": "unavailable"}
        status: Literal["success", "error"] = "success" if spent_usd else "error"
        return HostToolResponse(call_id=request.call_id, status=status, output=output)

    async with run_control("http://127.0.0.1:1/v1") as stand_in:
        stand_in.host_tool = answer
        control, tool = ControlClient(stand_in.boot()), Proposal(manifest)
        log = silent_log(SESSION)
        replication = LogReplicator(
            control=control,
            session_log=log,
            settings=FixedHeartbeatSettings(),
            clock=SystemClock(),
            agent_id=AGENT,
            epoch=1,
        )
        approvals, workspace = ApprovalClient(control), Workspace(stand_in.workspace)
        policy, settings = ToolPolicy(ToolRegistry([tool]), SkillRegistry(())), stand_in.settings()
        owners = AgentPolicy(agent_id=AGENT, rules=rules)
        settings = settings.model_copy(update={"policy": owners})
        arbiter = Arbiter(
            session_log=log,
            replication=replication,
            policy=policy,
            workspace=workspace,
            locks=LockManager(),
            approvals=approvals,
            settings=FixedSettings(settings),
            snapshots=SnapshotWriter(WorkingMemory()),
            failure_hints=FailureHints(control),
            spending=SpendingReader(control),
        )
        arbiter.commit("edge", UserMessageStarted(turn_id="t", inbox_id="i", dm=DM, text="x"))
        output = ModelOutput(
            turn_id="t", text="", tool_calls=(CALL,), model="m", finish_reason="stop"
        )
        arbiter.commit("edge", output)
        beats = asyncio.create_task(replication.run())
        use = asyncio.create_task(arbiter.run_calls("edge", "t", (CallState(CALL),)))
        yield Desk(stand_in, approvals, tool, use)
        beats.cancel()
        await asyncio.wait({beats})
        await control.close()
        workspace.close()


async def test_it_runs_once_a_human_has_allowed_it() -> None:
    async with open_desk() as desk:
        approval = await desk.asked()
        await asyncio.sleep(0.1)
        assert (desk.tool.runs, desk.use.done()) == (0, False)
        assert desk.control.replies() == []  # control notifies the user itself
        await desk.decide(approval, "approved")
        assert (await desk.result()).status == "success"
    assert desk.tool.runs == 1


async def test_it_does_not_run_when_a_human_has_rejected_it() -> None:
    async with open_desk() as desk:
        await desk.decide(await desk.asked(), "rejected")
        result = await desk.result()
    assert (result.status, result.output["code"]) == ("refused", "rejected")
    assert "Do not try to reach the same in another way" in str(result.output["message"])
    assert desk.tool.runs == 0


async def test_a_call_whose_request_expired_is_refused_and_nobody_is_said_to_have_rejected_it() -> (
    None
):
    async with open_desk() as desk:
        await desk.decide(await desk.asked(), "expired")
        result = await desk.result()
    assert (result.status, result.output["code"]) == ("refused", "expired")
    assert "nobody decided in time" in str(result.output["message"])
    assert desk.tool.runs == 0


@pytest.mark.parametrize("other", ["apr_other", ""])
async def test_a_decision_on_something_else_changes_nothing(other: str) -> None:
    async with open_desk() as desk:
        approval = await desk.asked()
        desk.approvals.resolve(other)
        await asyncio.sleep(0.1)
        assert not desk.use.done()
        await desk.decide(approval, "rejected")
    assert desk.tool.runs == 0


async def test_a_rule_lets_a_call_run_that_would_ask() -> None:
    async with open_desk(PolicyRule(action="allow", tools=("choir.propose.*",))) as desk:
        assert (await desk.result()).status == "success"
        assert desk.control.approvals == {}


async def test_a_rule_makes_a_call_ask() -> None:
    silent = replace(
        Proposal.manifest, runtime=replace(Proposal.manifest.runtime, needs_approval=False)
    )
    rules = (PolicyRule(action="ask", arguments={"name": "x"}, why="it is new"),)
    async with open_desk(*rules, manifest=silent) as desk:
        approval = await desk.asked()
        assert desk.tool.runs == 0
        request = desk.control.approval_requests[CALL.call_id]
        assert (request.why, request.scopes, request.job_id) == ("it is new", EVERY_SCOPE, None)
        await desk.decide(approval, "approved")
        assert (await desk.result()).status == "success"
    async with open_desk(PolicyRule(action="ask", lanes=("core",)), manifest=silent) as desk:
        assert (await desk.result()).status == "success"


async def test_a_rule_refuses_a_call_and_nobody_is_asked() -> None:
    async with open_desk(PolicyRule(action="deny", agents=(AGENT,), why="not from here")) as desk:
        result = await desk.result()
        assert desk.control.approvals == {}
    assert (result.status, result.output["code"]) == ("refused", "denied_by_policy")
    assert "not from here" in str(result.output["message"])
    assert desk.tool.runs == 0


@pytest.mark.parametrize(
    ("spent_usd", "status"), [("0.5", "success"), ("0.500001", "refused"), ("", "refused")]
)
async def test_a_rule_on_spending_decides_by_the_sum_of_today_and_holds_if_it_is_unknown(
    spent_usd: str, status: str
) -> None:
    rules = (
        PolicyRule(action="deny", spent_above=Decimal("0.5")),
        PolicyRule(action="allow"),
    )
    async with open_desk(*rules, spent_usd=spent_usd) as desk:
        assert (await desk.result()).status == status
        tools = [call.tool_name for call in desk.control.host_calls]
    assert SPENT_TOOL in tools
