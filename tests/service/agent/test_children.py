"""Programs that tools run: they end with their call, take nothing along, and stay behind their walls."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.streams import OutputCapture
from choir_common.confinement import landlock, seccomp
from choir_common.confinement.kernel import Kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LOUD: needs Linux's process rules")


async def run(
    children: ProgramRunner,
    script: str,
    call_id: str = "call_1",
    timeout_s: float = 20.0,
    *,
    stdin: bytes | None = None,
    offline: bool = False,
    readable: tuple[str, ...] = (),
) -> tuple[int | None, str, str]:
    """Run a shell script; returns its exit code and what it wrote."""
    out, err = OutputCapture(100_000), OutputCapture(100_000)
    program = Program(
        call_id,
        ["/bin/sh", "-c", script],
        timeout_s,
        stdin=stdin,
        offline=offline,
        readable=readable,
    )
    exit_code = await children.run(program, out, err)
    return exit_code, out.text(), err.text()


def alive(pid: int) -> bool:
    """Tell whether a process exists, be it a zombie."""
    return Path(f"/proc/{pid}").exists()


async def gone(pid: int) -> bool:
    """Wait until a process is no more."""
    async with asyncio.timeout(60):
        while alive(pid):
            await asyncio.sleep(0.02)
    return True


async def test_a_program_reads_what_it_is_given_to_the_last_byte(tmp_path: Path) -> None:
    given = b"x" * 3_000_000
    code, out, _ = await run(ProgramRunner(tmp_path, "/tmp"), "wc -c", stdin=given)
    assert (code, out.strip()) == (0, "3000000")


async def test_a_program_that_reads_nothing_does_not_hang(tmp_path: Path) -> None:
    code, _, _ = await run(ProgramRunner(tmp_path, "/tmp"), "exit 7", stdin=b"x" * 3_000_000)
    assert code == 7


async def test_the_environment_is_clean(tmp_path: Path) -> None:
    os.environ["H4_CANARY"] = "canary"
    try:
        _, out, _ = await run(ProgramRunner(tmp_path, "/tmp"), "env")
    finally:
        del os.environ["H4_CANARY"]
    assert "canary" not in out
    assert f"HOME={tmp_path}" in out


async def test_a_program_blocks_no_signals_and_does_not_ignore_common_ones(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _, out, _ = await run(ProgramRunner(tmp_path, "/tmp"), "cat /proc/self/status")
    finally:
        signal.signal(signal.SIGINT, before)
    masks = dict(line.split(":\t") for line in out.splitlines() if line.startswith("Sig"))
    assert int(masks["SigBlk"], 16) == 0
    common = (signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM)
    assert int(masks["SigIgn"], 16) & sum(1 << (number - 1) for number in common) == 0


@pytest.mark.parametrize("detach", ["", "setsid "])
async def test_what_a_command_leaves_ends_with_it(tmp_path: Path, detach: str) -> None:
    script = f"{detach}sleep 300 & echo $!; exit 0"
    _, out, _ = await run(ProgramRunner(tmp_path, "/tmp"), f"({script})")
    assert not alive(int(out))


async def test_a_call_that_ends_leaves_another_calls_processes_alone(
    tmp_path: Path,
) -> None:
    children = ProgramRunner(tmp_path, "/tmp")
    # its orphan left the session, and is known by its call only
    first = asyncio.create_task(
        run(
            children,
            "(setsid sleep 300 & echo $! > pid); while [ ! -e go ]; do sleep 0.05; done; "
            "kill -0 $(cat pid) && echo yes",
        )
    )
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        await asyncio.sleep(0.02)
    for number in range(5):
        _, out, _ = await run(children, "(setsid sleep 300 & echo $!)", f"call_other_{number}")
        assert await gone(int(out))
    assert not first.done()
    (tmp_path / "go").touch()
    assert (await first)[1] == "yes\n"
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_orphans_that_end_while_a_command_runs_are_reaped(
    tmp_path: Path,
) -> None:
    script = (
        "for i in 1 2 3 4 5; do (sleep 0.1 & echo $! >> pids); done; mv pids begun; "
        "while [ ! -e go ]; do sleep 0.05; done"
    )
    task = asyncio.create_task(run(ProgramRunner(tmp_path, "/tmp"), script))
    async with asyncio.timeout(60):
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.02)
    orphans = [int(pid) for pid in (tmp_path / "begun").read_text().split()]
    assert len(orphans) == 5
    for pid in orphans:
        assert await gone(pid)
    assert not task.done()
    (tmp_path / "go").touch()
    await task


async def test_a_timeout_kills_and_says_so(tmp_path: Path) -> None:
    code, out, _ = await run(ProgramRunner(tmp_path, "/tmp"), "echo begun; sleep 60", timeout_s=0.5)
    assert (code, out) == (None, "begun\n")


def test_programs_die_with_the_agent_however_it_dies(tmp_path: Path) -> None:
    script = (
        "import asyncio,sys,pathlib\n"
        "from choir_agent.tools.program_runner import Program, ProgramRunner\n"
        "from choir_agent.tools.streams import OutputCapture\n"
        f"c = ProgramRunner(pathlib.Path({str(tmp_path)!r}), '/tmp')\n"
        "async def one(offline):\n"
        "    p = Program('c', ['/bin/sh','-c','echo $$ >> pids; sleep 300'], 300, offline=offline)\n"
        "    await c.run(p, OutputCapture(10), OutputCapture(10))\n"
        "async def main():\n"
        "    await asyncio.gather(one(False), one(True))\n"
        "asyncio.run(main())\n"
    )
    agent = subprocess.Popen([sys.executable, "-c", script])
    pids: list[int] = []
    for _ in range(400):
        pids = [int(p) for p in _read(tmp_path / "pids").split()]
        if len(pids) == 2:
            break
        subprocess.run(["sleep", "0.05"], check=True)
    agent.kill()
    agent.wait()
    assert len(pids) == 2
    for _ in range(100):
        if not any(_runs(pid) for pid in pids):
            return
        subprocess.run(["sleep", "0.05"], check=True)
    raise AssertionError("a program outlived its agent")


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _runs(pid: int) -> bool:
    """Return whether a process runs; a zombie waits for its adoptive parent."""
    stat = _read(Path(f"/proc/{pid}/stat"))
    return bool(stat) and stat.rsplit(")", 1)[1].split()[0] != "Z"


OFFLINE_PROBE = """
import socket, sys, os, ctypes
for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM),
                     (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_STREAM),
                     (16, socket.SOCK_RAW), (40, socket.SOCK_STREAM)):
    try:
        socket.socket(family, kind)
        print("made", family, kind)
    except PermissionError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
for number in (425, 438):
    if libc.syscall(number, 1, 0, 0) != -1 or ctypes.get_errno() != 1:
        print("call", number, ctypes.get_errno())
print("done")
"""


async def test_an_offline_program_and_its_children_can_make_no_socket(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(OFFLINE_PROBE)
    script = f"{sys.executable} -I probe.py; (setsid {sys.executable} -I probe.py)"
    _, out, err = await run(ProgramRunner(tmp_path, "/tmp"), script, offline=True)
    assert (out, err) == ("done\ndone\n", "")


async def test_a_program_that_may_only_read_here_reads_nothing_else(tmp_path: Path) -> None:
    if landlock.supported_abi(Kernel(), newest=99) < 1:
        pytest.skip("LOUD: this kernel has no Landlock")
    inside, outside = tmp_path / "in", tmp_path / "secret"
    inside.mkdir()
    (inside / "file").write_text("inside")
    outside.write_text("canary")
    script = "cat file; cat ../secret; cat /etc/hostname; echo x > file"
    _, out, err = await run(ProgramRunner(inside, "/tmp"), script, readable=(".",))
    assert out == "inside"
    assert err.count("ermission denied") == 3
    assert (inside / "file").read_text() == "inside"


def test_every_supported_processor_has_a_filter_of_the_kernels_format() -> None:
    for machine in seccomp.ARCHITECTURES:
        for offline in (False, True):
            program = seccomp.build_filter(machine, offline=offline, tracing=not offline)
            assert len(program) % 8 == 0
            # a jump of 255 instructions is the longest
            assert len(program) // 8 < 255
