"""S28: agents of a plain user share that user; namespaces keep them from each other and from control."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from choir_control.agents.runtimes.process.process_table import find_process
from tests.security.runtimes.confined_calls import (
    CONFINEMENT,
    IS_ROOT,
    NOBODY,
    PYTHON,
    SYSTEM,
    Host,
    copy_confinement,
    run_confined,
    unsupported,
)

EVERY = "CHOIR_TEST_EVERY_HOST" in os.environ
OLD_HOSTS = [Host(abi, root=False) for abi in (range(1, 8) if EVERY else (1, 5, 7))]
SUBORDINATE = 100_000
"""The first of the ids of /etc/subuid."""
VICTIM = "victim_of_another_agent"
ATTACK = """
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)
def succeeds(deed):
    try:
        return deed() != -1
    except OSError:
        return False
def read(file):
    with open(file, 'rb') as opened:
        return len(opened.read(1)) or -1
reached = []
for pid in {pids}:
    attacks = {{
        'kill': lambda: os.kill(pid, 0),
        'pidfd': lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0),
        'trace': lambda: libc.ptrace(16, pid, 0, 0),
        'memory': lambda: read(f'/proc/{{pid}}/mem'),
        'environ': lambda: read(f'/proc/{{pid}}/environ'),
        'root': lambda: os.listdir(f'/proc/{{pid}}/root'),
    }}
    reached += [(pid, name) for name, deed in attacks.items() if succeeds(deed)]
seen = [name for name in os.listdir('/proc') if name.isdigit() and int(name) in {pids}]
print(json.dumps({{'reached': reached, 'seen': seen, 'missing': missing}}))
"""


def find_victims() -> list[int]:
    """Return the pids, outside of namespaces, of the processes of the agent that is attacked."""
    pids = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and VICTIM.encode() in (entry / "cmdline").read_bytes():
                pids.append(int(entry.name))
    return [pid for pid in pids if pid != os.getpid()]


@contextlib.contextmanager
def other_agent(host: Host) -> Iterator[list[int]]:
    """Run another agent of the same user; yield the pids of its processes."""

    def live() -> None:
        with contextlib.suppress(AssertionError):  # it is killed in the end
            run_confined(host, f"import time; time.sleep(120)  # {VICTIM}")

    thread = threading.Thread(target=live)
    thread.start()
    deadline = time.monotonic() + 30
    # its launcher of tool calls is the last process that starts
    while len(find_victims()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        yield find_victims()
    finally:
        for pid in find_victims():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        thread.join()


@pytest.mark.parametrize("host", OLD_HOSTS, ids=str)
def test_an_agent_reaches_no_other_agent_nor_control_on_any_kernel(host: Host) -> None:
    if reason := unsupported(host):
        pytest.skip(reason)
    with (
        subprocess.Popen([*host.user_prefix(), "sleep", "60"]) as control,
        other_agent(host) as victims,
    ):
        assert len(victims) >= 2
        report = run_confined(host, ATTACK.format(pids=[control.pid, *victims]))
        control.kill()
        assert set(victims) <= set(find_victims()), "the other agent has ended"
    assert report["reached"] == [] and report["missing"] == []
    if host.abi < 6:
        assert report["seen"] == []


PLAIN = Host(1, root=False)
ENDS_ITSELF = "signal.signal(15, lambda *_: sys.exit(7))"


@pytest.fixture
def place() -> Iterator[Path]:
    """Make the directories of an agent where a plain user can use them."""
    if reason := unsupported(PLAIN):
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="choir-shared-", ignore_cleanup_errors=True) as name:
        place = Path(name)
        copy_confinement(place / "package")
        for directory in (place / "view", place / "write"):
            directory.mkdir()
            if IS_ROOT:
                os.chown(directory, NOBODY, NOBODY)
        place.chmod(0o711)
        yield place


def command(place: Path, code: str) -> list[str]:
    """Return the command that runs a Python program as an agent of a plain user."""
    pairs = [("--parent", os.getpid()), ("--newest-abi", PLAIN.abi), ("--chdir", "/")]
    pairs += [("--read", path) for path in SYSTEM if Path(path).exists()]
    pairs += [("--view", place / "view"), ("--write", place / "write"), ("--device", "/dev/null")]
    words = [str(word) for pair in pairs for word in pair]
    script = str(place / "package" / CONFINEMENT / "script.py")
    confined = [PYTHON, "-I", "-S", script, *words, "--", PYTHON, "-I", "-c", code]
    return [*PLAIN.user_prefix(), *confined]


@pytest.mark.parametrize(
    ("before", "number", "expected"),
    [("pass", signal.SIGKILL, -9), (ENDS_ITSELF, signal.SIGTERM, 7)],
    ids=["killed", "asked to end"],
)
def test_an_agent_in_a_namespace_ends_with_the_process_that_control_knows(
    place: Path, before: str, number: signal.Signals, expected: int
) -> None:
    code = f"import os, signal, sys, time; {before}; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen(
        command(place, code), stdout=subprocess.PIPE, text=True, cwd="/"
    ) as agent:
        assert agent.stdout is not None and agent.stdout.readline() == "1\n"
        children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text()
        agent.send_signal(number)
        assert agent.wait(30) == expected
    (pid,) = children.split()
    deadline = time.monotonic() + 30
    while (program := find_process(int(pid))) and not program.zombie:
        assert time.monotonic() < deadline, "the agent outlives the process that control knows"
        time.sleep(0.01)


TRANSLATE = """
import errno, os, sys
sys.path.insert(0, sys.argv[1] + '/package')
from choir_common.confinement.kernel import CLONE_NEWNS, CLONE_NEWUSER, Kernel
from choir_common.confinement.namespaces import translate_owners
kernel = Kernel()
kernel.call('unshare', CLONE_NEWUSER | CLONE_NEWNS)
print(os.getpid(), flush=True)
sys.stdin.readline()
private = sys.argv[1] + '/private'
os.close(os.open(private, os.O_CREAT | os.O_WRONLY, 0o600))
os.chown(private, 5, 5)
from choir_common.confinement import namespaces
namespaces.id_map = lambda owner, user: f'{owner} {user} 1'
try:
    translate_owners(kernel, [sys.argv[1]], 5)
    print('translated')
except OSError as error:
    print(errno.errorcode[error.errno])
"""


@pytest.mark.skipif(not IS_ROOT, reason="this run is not root's, who writes maps as newuidmap does")
def test_subordinate_ids_do_not_let_a_plain_user_translate_the_owners_of_files(
    place: Path,
) -> None:
    """Why a plain user's agents have no users of their own (decision 121).

    A kernel on which this fails has learned it: then the decision can be made again.
    """
    os.chown(place, NOBODY, NOBODY)
    words = [*PLAIN.user_prefix(), PYTHON, "-I", "-c", TRANSLATE, str(place)]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, text=True, cwd="/") as user:
        assert user.stdin is not None and user.stdout is not None
        pid = int(user.stdout.readline())
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{name}").write_text(f"0 {NOBODY} 1\n1 {SUBORDINATE} 65535\n")
        said, _ = user.communicate("\n", timeout=30)
    # The user can give files away, which then belong to an id that nobody has ...
    assert (place / "private").stat().st_uid == SUBORDINATE + 4
    # ... but a mount that translates owners needs privileges over the file system.
    assert said == "EPERM\n"
