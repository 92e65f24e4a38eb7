"""A command that reaches a host for the first time: refused at the proxy, then asked for (GUARANTEES S38)."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson

from choir_agent.arbiter.approval_client import ApprovalClient
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.arbiter.call_execution import FailureHints
from choir_agent.arbiter.tool_policy import ToolPolicy
from choir_agent.budgets.spending import SpendingReader
from choir_agent.control_client.control_client import ControlClient
from choir_agent.egress.call_connections import ConnectionAccounts
from choir_agent.egress.relay import EgressRelay, open_relay
from choir_agent.locks.lock_manager import LockManager
from choir_agent.log.log_replicator import LogReplicator
from choir_agent.log.session_log import SessionLog
from choir_agent.log.session_state import CallState
from choir_agent.skills.skill_registry import SkillRegistry
from choir_agent.tools.builtin.shell import ShellTool
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.workspace import Workspace
from choir_agent.working_memory.working_memory import SnapshotWriter, WorkingMemory
from choir_common.clock import SystemClock
from choir_common.redactor import Redactor
from choir_common.wire.egress import AgentEgress
from choir_common.wire.events import ModelOutput, ToolCall, ToolResultCommitted, UserMessageStarted
from choir_common.wire.policy import AgentPolicy
from choir_common.wire.rpc import ApprovalResponse
from tests.service.agent.control_stand_in import AGENT, DM, SESSION, ControlStandIn, run_control
from tests.support.agent_fakes import FixedHeartbeatSettings, FixedSettings
from tests.support.egress import KEY, TrapServer, running_egress, running_trap
from tests.support.service_process import short_home

NEW = "127.1"
"""A name of loopback, which the proxy takes for a host on the internet."""


@dataclass
class Place:
    """An arbiter with the command tool behind a real proxy, and a server that only the new name reaches."""

    control: ControlStandIn
    approvals: ApprovalClient
    arbiter: Arbiter
    trap: TrapServer

    @property
    def command(self) -> str:
        code = (
            f"import urllib.request as u; print(u.urlopen('http://{NEW}:{self.trap.port}/').status)"
        )
        return f'{sys.executable} -I -c "{code}"'

    async def run(self, call_id: str) -> ToolResultCommitted:
        """Have the model run the command; return the result."""
        arguments = orjson.dumps({"command": self.command}).decode()
        call = ToolCall(call_id=call_id, tool="choir.exec", arguments=arguments)
        self.arbiter.commit(
            "edge",
            ModelOutput(turn_id="t", text="", tool_calls=(call,), model="m", finish_reason="stop"),
        )
        await self.arbiter.run_calls("edge", "t", (CallState(call),))
        await self.control.until(lambda: bool(self.results(call_id)))
        return self.results(call_id)[0]

    def results(self, call_id: str) -> list[ToolResultCommitted]:
        results = [p for p in self.control.payloads() if isinstance(p, ToolResultCommitted)]
        return [result for result in results if result.call_id == call_id]


@asynccontextmanager
async def arbiter_behind(
    relay: EgressRelay, control: ControlStandIn, text: str
) -> AsyncIterator[Arbiter]:
    client, memory = ControlClient(control.boot()), WorkingMemory()
    log = SessionLog(SESSION, clock=SystemClock(), listener=memory, redactor=Redactor())
    replication = LogReplicator(
        control=client, session_log=log, settings=FixedHeartbeatSettings(), clock=SystemClock(),
        agent_id=AGENT, epoch=1,
    )  # fmt: skip
    workspace = Workspace(control.workspace)
    programs = ProgramRunner(workspace.root, "/tmp", egress=relay.route)
    arbiter = Arbiter(
        session_log=log,
        replication=replication,
        policy=ToolPolicy(ToolRegistry([ShellTool(programs)]), SkillRegistry(())),
        workspace=workspace,
        locks=LockManager(),
        approvals=ApprovalClient(client),
        settings=FixedSettings(control.settings().model_copy(update={"policy": AgentPolicy()})),
        snapshots=SnapshotWriter(memory),
        failure_hints=FailureHints(client),
        spending=SpendingReader(client),
        hosts=memory,
        connections=ConnectionAccounts(relay.route),
    )
    arbiter.commit("edge", UserMessageStarted(turn_id="t", inbox_id="i", dm=DM, text=text))
    beats = asyncio.create_task(replication.run())
    yield arbiter
    beats.cancel()
    await asyncio.wait({beats})
    await client.close()
    workspace.close()


@asynccontextmanager
async def open_place(text: str = "Fetch it.") -> AsyncIterator[Place]:
    async with (
        short_home() as home,
        running_trap() as trap,
        run_control("http://127.0.0.1:1/v1") as control,
        running_egress(
            home,
            AgentEgress(agent_id="main", key=KEY, tool_hosts=(f"127.0.0.1:{trap.port}",)),
        ) as egress,
    ):
        proxied = {"egress_socket": str(egress.proxy_socket()), "egress_key": KEY}
        relay = open_relay(control.boot().model_copy(update=proxied))
        assert relay is not None
        async with relay.serving(), arbiter_behind(relay, control, text) as arbiter:
            yield Place(control, arbiter._approvals, arbiter, trap)


async def test_a_command_is_refused_at_a_new_host_and_its_repetition_asks_and_then_connects() -> (
    None
):
    async with open_place() as place:
        first = await place.run("c1")
        assert place.control.approvals == {}
        assert [(c.host, c.decision) for c in first.connections] == [(NEW, "new_host")]
        assert first.output["new_hosts"]["hosts"] == [NEW]  # type: ignore[index,call-overload]
        assert place.trap.connections == 0
        again = asyncio.create_task(place.run("c2"))
        await place.control.until(lambda: "c2" in place.control.approvals)
        approval = place.control.approvals["c2"].approval_id
        place.control.approvals["c2"] = ApprovalResponse(approval_id=approval, status="approved")
        place.approvals.resolve(approval)
        second = await again
    assert second.output["stdout"] == "200\n"
    connection = second.connections[0]
    assert (connection.host, connection.decision, connection.connections) == (NEW, "allowed", 1)
    assert connection.bytes_down > 0
    assert "new_hosts" not in second.output


async def test_a_host_that_the_user_typed_is_reached_without_a_question() -> None:
    async with open_place(f"Fetch http://{NEW}/ for me.") as place:
        result = await place.run("c1")
    assert result.output["stdout"] == "200\n"
    assert place.control.approvals == {}
