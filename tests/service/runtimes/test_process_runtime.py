"""The process runtime's promises about life and death of agents, on real child processes."""

import asyncio
import gzip
import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from choir_common.errors import Conflict, Unavailable
from choir_control.agents.runtimes.process.orphans import ProcessRecordStore
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from tests.security.runtimes.confined import DEADLINE_S, TOKEN, confining, stand_in_control

WAITS = "report({'boot': boot, 'pid': os.getpid(), 'rest': sys.stdin.read()}); time.sleep(60)"


def lives(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def ends(pid: int) -> bool:
    """Wait until a process has ended."""
    for _ in range(int(DEADLINE_S / 0.02)):
        if not lives(pid):
            return True
        await asyncio.sleep(0.02)
    return False


async def test_an_agent_gets_its_boot_line_and_then_the_end_of_input() -> None:
    async with confining(WAITS) as place:
        spec = place.spec()
        running = await place.runtime.start(spec)
        report = await place.report()
        assert await place.runtime.list_running() == [running]
    assert report["boot"] == {
        "agent_id": "main",
        "session_id": "ses_main",
        "epoch": 1,
        "lease_token": TOKEN,
        "endpoint": f"unix://{spec.socket_dir}/choir.sock",
        "ca_pem": "",
        "workspace": str(spec.workspace),
        "choir_dir": str(spec.choir_dir),
        "image_version": "",
        "egress_socket": "",
        "egress_key": "",
        "egress_address": "",
        "egress_certificate": "",
    }
    assert report["rest"] == ""
    assert report["pid"] == running.pid


async def test_an_agent_that_runs_cannot_be_started_again() -> None:
    async with confining(WAITS) as place:
        await place.runtime.start(place.spec())
        with pytest.raises(Conflict):
            await place.runtime.start(place.spec(epoch=2))


async def test_two_starts_at_once_make_one_agent() -> None:
    async with confining(WAITS) as place:
        starts = [place.runtime.start(place.spec(epoch=epoch)) for epoch in (1, 2)]
        results = await asyncio.gather(*starts, return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["Conflict", "RunningAgent"]
        assert len(await place.runtime.list_running()) == 1


async def test_agents_that_start_at_once_are_confined_alike() -> None:
    code = "report(sorted(os.listdir('/'))); time.sleep(60)"
    async with confining(code) as place:
        specs = [place.spec(agent_id) for agent_id in ("main", "other")]
        await asyncio.gather(*map(place.runtime.start, specs))
        assert await place.report("main") == await place.report("other")


async def test_a_start_that_is_cancelled_in_the_test_of_the_kernel_leaves_nothing() -> None:
    async with confining(WAITS) as place:
        before = {child.pid for child in psutil.Process().children()}
        start = asyncio.create_task(place.runtime.start(place.spec()))
        async with asyncio.timeout(DEADLINE_S):
            while not (tests := {child.pid for child in psutil.Process().children()} - before):
                await asyncio.sleep(0)
        await asyncio.sleep(0.01)  # until its output is read
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        assert not any(map(lives, tests))

        await place.runtime.start(place.spec(epoch=2))
        assert place.runtime.call_limits()


async def test_a_start_without_a_workspace_is_refused_and_leaves_nothing() -> None:
    async with confining(WAITS) as place:
        spec = place.spec()
        spec.workspace.rmdir()
        with pytest.raises(Unavailable, match="workspace"):
            await place.runtime.start(spec)
        spec.workspace.mkdir()
        await place.runtime.start(spec)


async def test_an_agent_that_obeys_sigterm_is_not_killed() -> None:
    code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); report(1); time.sleep(60)"
    async with confining(code) as place:
        await place.runtime.start(place.spec())
        await place.report()
        await place.runtime.stop("main", grace_s=DEADLINE_S)
        exit_ = await place.next_exit()
        assert (exit_.agent_id, exit_.session_id, exit_.epoch) == ("main", "ses_main", 1)
        assert exit_.code == 7
        assert await place.runtime.list_running() == []


async def test_a_stubborn_agent_is_killed_with_every_tool_it_started() -> None:
    code = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
tools = [subprocess.Popen(['sleep', '600']),
         subprocess.Popen(['sleep', '601'], start_new_session=True)]
# a double fork into a session of its own: the classic way to outlive one's parent
daemon = subprocess.run(['sh', '-c', 'setsid sleep 602 >/dev/null 2>&1 & echo $!'], stdout=subprocess.PIPE)
report([tool.pid for tool in tools] + [int(daemon.stdout)])
time.sleep(60)
"""
    async with confining(code) as place:
        agent = await place.runtime.start(place.spec())
        tools = await place.report()
        assert all(lives(pid) for pid in tools)
        await place.runtime.stop("main", grace_s=0.1)
        assert agent.pid is not None
        assert [pid for pid in (agent.pid, *tools) if lives(pid)] == []
        exit_ = await place.next_exit()
        assert exit_.code == -signal.SIGKILL
        assert "SIGKILL" in exit_.detail


async def test_a_crash_is_told_at_once_and_its_tools_die_with_it() -> None:
    code = """
tool = subprocess.Popen(['sleep', '600'], start_new_session=True)
report(tool.pid)
time.sleep(60)
"""
    async with confining(code) as place:
        agent = await place.runtime.start(place.spec())
        tool = await place.report()
        assert agent.pid is not None
        os.kill(agent.pid, signal.SIGKILL)
        exit_ = await place.next_exit()
        assert exit_.code == -signal.SIGKILL
        assert not lives(tool)
        # and the agent can be started again at once
        await place.runtime.start(place.spec(epoch=2))


async def test_ending_one_agent_leaves_the_tools_of_another_alone() -> None:
    code = """
daemon = subprocess.run(['sh', '-c', 'setsid sleep 602 >/dev/null 2>&1 & echo $!'], stdout=subprocess.PIPE)
report(int(daemon.stdout))
time.sleep(60)
"""
    async with confining(code) as place:
        await place.runtime.start(place.spec("first"))
        await place.runtime.start(place.spec("second"))
        first, second = await place.report("first"), await place.report("second")
        await place.runtime.stop("first", grace_s=0)
        assert not lives(first)
        assert lives(second)


async def test_no_agent_stays_a_zombie() -> None:
    async with confining("report(1)") as place:
        pids = []
        for epoch in range(1, 6):
            running = await place.runtime.start(place.spec(epoch=epoch))
            pids.append(running.pid)
            assert (await place.next_exit()).epoch == epoch
        assert [pid for pid in pids if pid is not None and psutil.pid_exists(pid)] == []


async def test_what_an_agent_says_stands_in_its_log() -> None:
    async with confining("print('what a day', file=sys.stderr); report(1)") as place:
        await place.runtime.start(place.spec())
        await place.next_exit()
        assert "what a day" in place.log()
        assert (place.home / "logs" / "main.log").stat().st_mode & 0o777 == 0o600


async def test_the_log_of_an_ended_session_is_put_away_with_its_last_words() -> None:
    async with confining("print('last words', file=sys.stderr); report(1)") as place:
        spec = place.spec()
        await place.runtime.start(spec)
        place.runtime.archive_log("main", spec.session_id)
        await place.next_exit()
        await place.runtime.close()
        assert not (place.home / "logs" / "main.log").exists()
        (kept,) = (place.home / "logs" / "archive" / "main").iterdir()
        assert kept.name.endswith(".log.gz")
        line = json.loads(gzip.decompress(kept.read_bytes()))
        assert (line["source"], line["session"]) == ("main", spec.session_id)
        assert line["message"] == "last words"


async def test_a_long_session_is_put_away_in_parts_as_config_json_says() -> None:
    code = "[print('line', n, file=sys.stderr, flush=True) for n in range(7)]; report(1)"
    async with confining(code) as place:
        (place.home / "config.json").write_text('{"log_archive_threshold_lines": 3}')
        await place.runtime.start(place.spec())
        await place.next_exit()
        await place.runtime.close()
        kept = list((place.home / "logs" / "archive" / "main").iterdir())
        # a pipe's chunk is never torn apart: all seven may have come at once
        lines = [line for path in kept for line in gzip.decompress(path.read_bytes()).splitlines()]
        assert len(lines) >= 3
        current = place.home / "logs" / "main.log"
        rest = current.read_bytes().splitlines() if current.exists() else []
        assert len(lines) + len(rest) == 7


def control_with_an_agent(home: Path, code: str) -> subprocess.Popen[str]:
    """Start a stand-in for control in a process of its own, with one agent that runs `code`."""
    return subprocess.Popen(stand_in_control(home, code), stdout=subprocess.PIPE, text=True)


async def test_an_agent_dies_when_control_is_killed(tmp_path: Path) -> None:
    control = control_with_an_agent(tmp_path, "report(1); time.sleep(60)")
    assert control.stdout is not None
    agent = int(await asyncio.to_thread(control.stdout.readline))
    assert lives(agent)
    control.kill()
    assert await ends(agent)
    await asyncio.to_thread(control.wait)
    control.stdout.close()


async def test_what_a_killed_control_left_behind_is_removed_by_the_next(tmp_path: Path) -> None:
    """The agent dies with control; a tool in its session may not, and the next control finds it."""
    control = control_with_an_agent(
        tmp_path, "tool = subprocess.Popen(['sleep', '600']); report(tool.pid); time.sleep(60)"
    )
    assert control.stdout is not None
    agent = int(await asyncio.to_thread(control.stdout.readline))
    report = tmp_path / "ws" / "report.json"
    while not report.exists():
        await asyncio.sleep(0.02)
    tool = int(report.read_text())
    control.kill()
    assert await ends(agent)
    await asyncio.to_thread(control.wait)
    control.stdout.close()
    assert lives(tool)
    runtime = ProcessRuntime(tmp_path, os.environ)
    assert await runtime.remove_orphans() == 1
    assert not lives(tool)
    assert await runtime.remove_orphans() == 0
    await runtime.close()


@pytest.mark.parametrize("scrub", ["", "env -i "])
async def test_a_detached_tool_of_a_killed_control_is_ended_by_the_next(
    tmp_path: Path, scrub: str
) -> None:
    """A tool in a session of its own, which it began with an environment of its own."""
    start = f"setsid {scrub}sleep 600 >/dev/null 2>&1 & echo $!"
    code = f"""
tool = subprocess.run(['sh', '-c', {start!r}], stdout=subprocess.PIPE)
report(int(tool.stdout)); time.sleep(60)
"""
    control = control_with_an_agent(tmp_path, code)
    assert control.stdout is not None
    agent = int(await asyncio.to_thread(control.stdout.readline))
    report = tmp_path / "ws" / "report.json"
    while not report.exists():
        await asyncio.sleep(0.02)
    tool = int(report.read_text())
    control.kill()
    assert await ends(agent)
    await asyncio.to_thread(control.wait)
    control.stdout.close()
    assert lives(tool)
    async with confining(WAITS) as other:
        await other.runtime.start(other.spec())
        await other.report()
        runtime = ProcessRuntime(tmp_path, os.environ)
        assert await runtime.remove_orphans() >= 1  # the agent may still be a zombie of init's
        assert not lives(tool)
        # an agent of another state directory is none of its business
        assert len(await other.runtime.list_running()) == 1
        await runtime.close()


async def test_a_process_that_got_an_orphans_pid_since_is_left_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    records = ProcessRecordStore(tmp_path / "run" / "agents")
    records.write("main", "ses_1", 1, bystander.pid)
    path = next(iter((tmp_path / "run" / "agents").glob("*.json")))
    text = path.read_text()
    started = text.split('"started":')[1].split(",")[0]
    path.write_text(text.replace(f'"started":{started}', f'"started":{int(started) - 1}'))
    runtime = ProcessRuntime(tmp_path, os.environ)
    assert await runtime.remove_orphans() == 0
    assert lives(bystander.pid)
    assert not path.exists()
    await runtime.close()
    bystander.kill()
    bystander.wait()


async def test_an_unreadable_record_is_said_and_removed(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "agents"
    directory.mkdir(parents=True)
    (directory / "main.json").write_text("{half")
    runtime = ProcessRuntime(tmp_path, os.environ)
    assert await runtime.remove_orphans() == 0
    assert list(directory.iterdir()) == []
    await runtime.close()


async def test_closing_kills_what_runs_and_ends_the_stream_of_exits() -> None:
    async with confining(WAITS) as place:
        running = await place.runtime.start(place.spec())
        await place.report()
        await place.runtime.close()
        assert running.pid is not None
        assert not lives(running.pid)
        assert [exit_.code async for exit_ in place.runtime.exits()] == [-signal.SIGKILL]
