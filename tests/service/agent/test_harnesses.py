"""Core jobs of external coding agents: one written with the protocol's SDK, and rough ones."""

import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from decimal import Decimal
from pathlib import Path

from choir_agent.harnesses.connection import HarnessCommand
from choir_agent.harnesses.updates import Said
from choir_agent.tools.call_launcher_client import COMMON, SCRIPT, CallLauncherClient
from choir_agent.tools.program_runner import ProgramRunner
from choir_common.wire.config import Budgets
from choir_common.wire.events import (
    CoreReported,
    CoreStopped,
    ModelOutput,
    ToolResultCommitted,
    UsageRecorded,
)
from choir_common.wire.harness_config import HarnessConfig
from choir_common.wire.policy import AgentPolicy, PolicyRule
from choir_common.wire.rpc import ApprovalRequest, HarnessStatus
from choir_common.wire.signals import ApprovalResolvedSignal, CancelSignal
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, SameAnswer, run_control
from tests.service.agent.running_agent import running_agent

SUPPORT = Path(__file__).parents[2] / "support"
ACP, ROUGH = SUPPORT / "acp_agent.py", SUPPORT / "rough_harness.py"
DEADLINE_S = 280


def harness(script: Path, *words: str, **fields: object) -> HarnessConfig:
    command = (sys.executable, str(script), *words)
    config = {"command": command, "agents": ("main",), "start_timeout_ms": DEADLINE_S * 1_000}
    return HarnessConfig.model_validate({**config, **fields})


@asynccontextmanager
async def control_with(config: HarnessConfig) -> AsyncIterator[ControlStandIn]:
    """Run a control whose agent has the harness `coder`; its model starts a job with what it is told."""
    spawn = {
        "name": "choir.core.spawn",
        "arguments": {"job_name": "job", "task_spec": "{user}", "harness": "coder"},
    }
    rule = {"when": {"lane": "edge", "contains": "do"}, "then": [{"call": spawn}, {"say": "begun"}]}
    score = Score.model_validate({"rules": [rule], "otherwise": [{"say": "noted"}]})
    async with run_rehearsal(score) as model, run_control(model) as control:
        control.bound = {"harnesses": {"coder": config}}
        control.approvals = SameAnswer("approved")
        (control.workspace / "note.txt").write_text("a note")
        yield control


def stopped(control: ControlStandIn) -> list[CoreStopped]:
    return [p for p in control.payloads() if isinstance(p, CoreStopped)]


def calls(control: ControlStandIn) -> list[tuple[str, str]]:
    results = [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]
    return [(r.tool, r.status) for r in results if r.tool != "choir.core.spawn"]


async def outcome(control: ControlStandIn) -> CoreStopped:
    """Wait until the user was notified about the job's end, and return that."""
    await control.until(
        lambda: any(reply.kind == "report" for reply in control.replies()), DEADLINE_S
    )
    return stopped(control)[0]


async def do(control: ControlStandIn, text: str) -> CoreStopped:
    async with running_agent(control):
        await control.say(f"do: {text}")
        return await outcome(control)


async def test_an_acp_agent_works_through_the_agents_own_tools_and_its_end_is_the_result() -> None:
    async with control_with(harness(ACP)) as control:
        end = await do(control, "WORK")
        written = (control.workspace / "out.txt").read_text()
    assert (end.outcome, written) == ("completed", "A NOTE")
    assert end.result == {"text": "refused 3; exit 0: from $HOME"}
    assert calls(control) == [
        ("harness.coder.start", "success"),
        ("harness.coder.prompt", "success"),
        ("choir.fs.read", "success"),
        ("choir.fs.write", "success"),
        ("choir.fs.read", "refused"),
        ("choir.fs.read", "refused"),
        ("choir.fs.read", "error"),
        ("choir.exec", "success"),
    ]
    reports = [p for p in control.payloads() if isinstance(p, CoreReported)]
    assert reports[0].kind == "plan"
    assert reports[0].body == {"steps": ["read the note (in_progress)", "write (pending)"]}
    outputs = [p for p in control.payloads() if isinstance(p, ModelOutput)]
    last = next(output for output in outputs if output.finish_reason == "end_turn")
    assert (last.prompt_tokens, last.completion_tokens) == (1000, 500)
    assert last.usage is not None and last.usage.billed_usd == Decimal("0.25")
    start = next(p for p in control.payloads() if isinstance(p, ToolResultCommitted)
                 and p.tool == "harness.coder.start")  # fmt: skip
    assert start.provenance is not None and start.provenance.outside[0].trust == 10


async def test_a_permission_is_a_question_with_nothing_hidden_and_holds_once() -> None:
    async with control_with(harness(ACP)) as control:
        end = await do(control, "beg, for free")
        (asked,) = control.approval_requests.values()
    assert end.result == {"text": "answer: yes"}
    assert asked.payload["tool"] == "harness.coder.permission"
    shown = str(asked.payload)
    assert "Show the weather<U+202E><U+200B>" in shown and "rm -rf ~" in shown
    assert "Choir has not checked" in shown
    # it says nothing of its cost, which is then unknown and not zero
    used = [p.usage for p in control.payloads() if isinstance(p, ModelOutput) and p.usage]
    of_harness = [usage for usage in used if usage.job_id]
    assert [(usage.name, usage.billed_usd) for usage in of_harness] == [("", None)]


def title_of(request: ApprovalRequest) -> str:
    arguments = request.payload["input"]
    assert isinstance(arguments, dict)
    return str(arguments["title"])


async def test_requests_that_come_together_run_together_and_each_is_answered_at_once() -> None:
    async with control_with(harness(ACP)) as control:
        control.approvals = {}

        def asked() -> dict[str, str]:
            return {title_of(r): call for call, r in control.approval_requests.items()}

        async def approve(title: str) -> None:
            answer = control.approvals[asked()[title]].model_copy(update={"status": "approved"})
            control.approvals[asked()[title]] = answer
            await control.tell(
                ApprovalResolvedSignal(approval_id=answer.approval_id, status="approved")
            )

        async with running_agent(control):
            await control.say("do: pair")
            await control.until(lambda: {"first", "second"} <= asked().keys(), DEADLINE_S)
            # the first one waits for a person; neither the command nor the second one waits for it
            await control.until((control.workspace / "answered-terminal").exists, DEADLINE_S)
            await approve("second")
            await control.until((control.workspace / "answered-second").exists, DEADLINE_S)
            assert not (control.workspace / "answered-first").exists()
            await approve("first")
            end = await outcome(control)
    assert end.result == {"text": "both are done"}


async def test_the_policy_decides_on_permissions_and_on_the_start() -> None:
    rule = PolicyRule(action="deny", tools=("harness.coder.permission",))
    async with control_with(harness(ACP)) as control:
        control.bound["policy"] = AgentPolicy(known_hosts=("*",), rules=(rule,))
        end = await do(control, "beg")
        assert not control.approval_requests
    assert end.result == {"text": "answer: no"}
    rule = PolicyRule(action="deny", tools=("harness.*",), why="no strangers")
    async with control_with(harness(ROUGH, "deaf")) as control:
        control.bound["policy"] = AgentPolicy(known_hosts=("*",), rules=(rule,))
        end = await do(control, "anything")
        assert not (control.workspace / "hangs").exists()
    assert end.outcome == "error" and "no strangers" in end.reason


async def test_a_crash_of_the_agent_continues_the_session_or_says_that_it_cannot() -> None:
    # the rough one cannot continue a session
    for config, result in ((harness(ACP), "completed"), (harness(ROUGH, "deaf"), "error")):
        async with control_with(config) as control:
            async with running_agent(control):
                await control.say("do: hang")
                await control.until((control.workspace / "hangs").exists, DEADLINE_S)
            control.next_epoch()
            async with running_agent(control):
                end = await outcome(control)
            prompted = control.workspace / "prompts"
            prompts = prompted.read_text().split("----\n") if prompted.exists() else []
        assert end.outcome == result
        if result == "completed":
            assert len(prompts) == 3 and "The program was restarted" in prompts[1]
        else:
            assert "it cannot continue a session" in end.reason
        assert control.types().count("core_stopped") == 1


async def test_a_refusal_is_an_error_and_a_cancelled_job_leaves_its_usage() -> None:
    async with control_with(harness(ACP)) as control:
        end = await do(control, "refuse")
        assert end.outcome == "error" and "it refused the task; it said: I will not." in end.reason
    for script, words in ((ACP, ()), (ROUGH, ("deaf",))):
        async with control_with(harness(script, *words)) as control:
            async with running_agent(control):
                await control.say("do: hang")
                await control.until((control.workspace / "hangs").exists, DEADLINE_S)
                await control.tell(CancelSignal(job="job"))
                end = await outcome(control)
            usage = [p for p in control.payloads() if isinstance(p, UsageRecorded)]
            assert (control.workspace / "cancelled").exists() == (script == ACP)
        assert end.outcome == "cancelled"
        assert [(u.model, u.usage and u.usage.billed_usd) for u in usage] == [
            ("harness:coder", None)
        ]


async def test_open_permissions_of_a_cancelled_job_are_answered_as_cancelled() -> None:
    async with control_with(harness(ACP)) as control:
        control.approvals = {}
        async with running_agent(control):
            await control.say("do: plead")
            # one request waits for a person, the other one for the first
            await control.until(lambda: bool(control.approval_requests), DEADLINE_S)
            (control.workspace / "asked").touch()
            await control.until((control.workspace / "asked-later").exists, DEADLINE_S)
            await control.tell(CancelSignal(job="job"))
            end = await outcome(control)
        outcomes = (control.workspace / "outcomes").read_text()
    assert (end.outcome, outcomes) == ("cancelled", "cancelled cancelled")


async def test_hostile_harnesses_end_their_job_and_no_more() -> None:
    expected = {
        "forge": "[-32601, -32602, -32602]; PermissionError; PermissionError",
        "noise": "lines were no valid messages",
        "giant": "message of more than 8000000 bytes",
        "crash": "it ended with exit code 3; it wrote: out of luck<U+001B>[31m",
        "new": "it speaks version 9 of ACP, and Choir 1",
    }
    for behaviour, words in expected.items():
        async with control_with(harness(ROUGH, behaviour)) as control:
            end = await do(control, "it")
        said = str(end.result) if behaviour == "forge" else end.reason
        assert words in said, behaviour
        assert (end.outcome == "completed") == (behaviour == "forge"), behaviour


@contextmanager
def launcher_for(workspace: Path) -> Iterator[int]:
    """Start the launcher of tool calls as the process runtime does; yield the connection with it."""
    ours, theirs = socket.socketpair()
    reads = [
        "/usr",
        "/lib",
        "/lib64",
        "/bin",
        "/etc",
        "/proc",
        sys.prefix,
        sys.base_prefix,
        str(SUPPORT),
    ]
    rules = [word for path in reads for word in ("--read", path)]
    words = [sys.executable, "-I", "-S", str(SCRIPT), str(COMMON), "--socket", str(theirs.fileno())]
    command = [*words, *rules, "--write", str(workspace), "--device", "/dev/null"]
    with theirs:
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    try:
        yield ours.detach()
    finally:
        process.kill()
        process.wait()


async def test_the_program_reads_and_changes_nothing_outside_and_gets_its_secrets_only(
    tmp_path: Path,
) -> None:
    workspace, private = tmp_path / "ws", tmp_path / "private"
    workspace.mkdir()
    private.write_text("private")
    config = harness(ROUGH, "outside", secrets={"CODER_KEY": "key"})
    with launcher_for(workspace) as connection:
        programs = ProgramRunner(workspace, str(workspace), launcher=CallLauncherClient(connection))
        connector = HarnessCommand("coder", config, {"key": "its-key"}, programs)
        async with connector.connect("job_1") as session:
            await session.open("")
            await session.prompt(str(private))
            said = await session.next_update()
    assert said == Said("PermissionError PermissionError its-key done")
    assert private.exists()


async def test_a_flood_fills_neither_log_nor_memory_and_ends_with_the_jobs_time() -> None:
    async with control_with(harness(ROUGH, "flood")) as control:
        control.budgets = Budgets(per_job_wall_time_ms=20_000)
        end = await do(control, "it")
    assert end.outcome in ("budget_exceeded", "error")
    assert sum(len(str(event.payload)) for event in control.events) < 200_000


async def test_a_harness_with_json_lines_does_a_job_and_is_tried_at_the_start() -> None:
    def ready() -> list[HarnessStatus]:
        return [s for r in control.statuses for s in r.harnesses if s.state == "ready"]

    async with control_with(harness(ROUGH, "jsonl", protocol="jsonl")) as control:
        async with running_agent(control):
            await control.until(lambda: bool(ready()), DEADLINE_S)
            await control.say("do: count")
            end = await outcome(control)
    assert end.result == {"text": "counted: True"}
    assert (ready()[0].about, ready()[0].protocol_version) == ("lines 0.1", "1")
    assert calls(control)[-1] == ("harness.coder.permission", "success")


async def test_models_hear_of_harnesses_only_if_there_is_one_and_cannot_call_its_tools() -> None:
    call = {"name": "harness.coder.permission", "arguments": {"title": "x"}}
    rule = {"when": {"lane": "edge", "contains": "try"}, "then": [{"call": call}, {"say": "tried"}]}
    score = Score.model_validate({"rules": [rule], "otherwise": [{"say": "hello"}]})
    async with run_rehearsal(score) as model, run_control(model) as control:
        control.bound = {"harnesses": {"coder": harness(ROUGH, "jsonl", protocol="jsonl")}}
        async with running_agent(control):
            await control.say("try it")
            await control.replied()
    assert calls(control) == [("harness.coder.permission", "refused")]
    assert not control.approval_requests
