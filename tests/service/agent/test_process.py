"""The real process: its start, its end, and what it keeps to itself."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import TOKEN, run_control
from tests.service.agent.running_agent import agent_process

SECRET = "sk-very-secret-canary-4711"


async def start_with(line: bytes) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "choir_agent",
        stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    _, stderr = await process.communicate(line)
    assert process.returncode is not None
    return process.returncode, stderr.decode()


async def test_sigterm_ends_the_process_in_good_order() -> None:
    async with run_rehearsal() as model, run_control(model) as control:
        async with agent_process(control) as process:
            await control.say("hello")
            await control.replied()
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                assert await process.wait() == 0
    assert control.types()[-1] == "session_stopped"
    assert control.terminated == "SIGTERM"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "Standard input is empty"),
        (b"{}\n", "agent_id"),
        (b'{"lease_token": "' + TOKEN.encode() + b'"}\n', "session_id"),
        (b"not json\n", "AgentStartParameters"),
    ],
)
async def test_a_bad_boot_line_is_one_clear_sentence_without_the_token(
    line: bytes, says: str
) -> None:
    code, stderr = await start_with(line)
    assert code == 1
    assert says in stderr
    assert TOKEN not in stderr
    assert "Traceback" not in stderr


async def test_neither_token_nor_key_is_in_environment_arguments_logs_or_a_tools_sight() -> None:
    # what the model itself repeats of a secret must not get into the log either
    command = f"env; cat /proc/$PPID/environ; echo {SECRET}"
    call = {"name": "choir.exec", "arguments": {"command": command}}
    score = Score.model_validate({"otherwise": [{"call": call}, {"say": "done"}]})
    async with run_rehearsal(score) as model, run_control(model) as control:
        control.secret, control.secrets = "model-key", {"model-key": SECRET}
        async with agent_process(control) as process:
            await control.say("look around")
            await control.replied()
            proc = Path(f"/proc/{process.pid}")
            seen = (proc / "cmdline").read_bytes()
            process.send_signal(signal.SIGTERM)
            await process.wait()
        seen += (control.root / "agent.log").read_bytes()
    assert b"tool call ended" in seen
    seen += "".join(event.model_dump_json() for event in control.events).encode()
    for canary in (TOKEN, SECRET):
        assert canary.encode() not in seen


async def test_a_command_dies_with_a_killed_agent() -> None:
    command = "echo $$ > pid; sleep 60"
    call = {"name": "choir.exec", "arguments": {"command": command}}
    score = Score.model_validate({"otherwise": [{"call": call}, {"say": "x"}]})
    async with run_rehearsal(score) as model, run_control(model) as control:
        async with agent_process(control) as process:
            await control.say("go")
            place = control.workspace / "pid"
            while not (place.exists() and place.read_text().strip()):
                await asyncio.sleep(0.02)
            pid = int(place.read_text())
            process.kill()
            await process.wait()
            async with asyncio.timeout(60):
                while alive(pid):
                    await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Return the pids of a process' children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_what_a_command_leaves_behind_ends_with_it() -> None:
    hide = "setsid sh -c 'echo $$ > pid; setsid sleep 61 & sleep 60' & sleep 0.3; echo left"
    call = {"name": "choir.exec", "arguments": {"command": hide}}
    score = Score.model_validate({"otherwise": [{"call": call}, {"say": "{result.output.stdout}"}]})
    async with run_rehearsal(score) as model, run_control(model) as control:
        async with agent_process(control) as process:
            await control.say("go")
            assert (await control.replied())[0].text == "left\n"
            assert not alive(int((control.workspace / "pid").read_text()))
            [launcher] = children(process.pid)
            assert children(launcher) == []
