"""S26, S27, S39: what a malicious command of `choir.exec` reaches of other calls, its agent and the host."""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from subprocess import PIPE
from typing import Any

import pytest

from tests.security.runtimes.confined_calls import (
    IS_ROOT,
    OWN_HOST,
    PYTHON,
    Host,
    run_confined,
    unsupported,
)

SECRET = "notion-key-of-another-tool"
EVERY = "CHOIR_TEST_EVERY_HOST" in os.environ
EVERY_HOST = [Host(abi, root) for abi in range(1, 8) for root in (True, False)]
HOSTS = EVERY_HOST if EVERY else [Host(1, root=True), Host(5, root=False), Host(7, root=True)]
WITHOUT_NAMESPACES = [Host(abi, root=IS_ROOT, view=False) for abi in range(1, 8)]

ATTACK = """
import ctypes, errno, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
outside, secret, agent = int(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])
stolen, killed, traced, seen = [], [], [], 0
for name in os.listdir('/proc'):
    if not name.isdigit() or int(name) == os.getpid():
        continue
    seen += name != '1'
    for file in ('environ', 'cmdline', 'maps', 'mem'):
        try:
            with open(f'/proc/{name}/{file}', 'rb') as opened:
                text = opened.read(1) if file == 'mem' else opened.read()
        except OSError as error:
            if file == 'mem' and error.errno == errno.EIO:
                stolen.append(f'{name}/mem')
            continue
        if file != 'cmdline' and text:
            stolen.append(f'{name}/{file}')
for pid in (outside, agent):
    if pid == 1:  # an agent with a namespace of its own: here the number is that of this call's own init
        continue
    try:
        os.kill(pid, 0)
        killed.append(pid)
    except OSError:
        pass
    if libc.ptrace(16, pid, 0, 0) == 0:
        traced.append(pid)
calls = {'unshare': (272, 97, 0x10000000), 'io_uring_setup': (425, 425, 1), 'keyctl': (250, 219, 0),
         'add_key': (248, 217, 0), 'request_key': (249, 218, 0), 'personality': (135, 92, 0x0040000),
         'modify_ldt': (154, None, 0), 'bpf': (321, 280, 0), 'perf_event_open': (298, 241, 0),
         'userfaultfd': (323, 282, 0), 'mount': (165, 40, 0), 'setns': (308, 268, 0),
         'pidfd_getfd': (438, 438, 0), 'newest': (470, 470, 0)}
allowed = []
for name, numbers in calls.items():
    number = numbers[os.uname().machine == 'aarch64']
    if number is None:
        continue
    ctypes.set_errno(0)
    result = libc.syscall(number, numbers[2], 0, 0, 0, 0)
    if result != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        allowed.append(name)
child = libc.syscall(56 if os.uname().machine == 'x86_64' else 220, 0x10000011, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
allowed += ['clone'] if child > 0 else []
sockets = []
for family in (socket.AF_NETLINK, getattr(socket, 'AF_VSOCK', 40), socket.AF_PACKET, 38):
    try:
        socket.socket(family, socket.SOCK_RAW if family != 40 else socket.SOCK_STREAM).close()
        sockets.append(int(family))
    except OSError:
        pass
socket.socket(socket.AF_INET).close()
files = sorted(int(name) for name in os.listdir('/proc/self/fd'))
status = open('/proc/self/status').read()
print(json.dumps({'seen': seen, 'stolen': stolen, 'killed': killed, 'traced': traced,
    'allowed': allowed, 'sockets': sockets, 'files': files[:-1],
    'capabilities': [line for line in status.splitlines() if line.startswith('Cap')]}))
"""
# Another call, with a secret in its environment and memory, and then the attacker beside it.
CALLS = """
victim = start('import time; print("ready", flush=True); time.sleep(60)', {{'KEY': {secret!r}}})
victim[1].readline()
attack = {attack!r}.replace('sys.argv[1]', '{outside}').replace('sys.argv[2]', repr({secret!r}))
thief = start(attack.replace('sys.argv[3]', str(os.getpid())))
text, reply = end(thief)
assert reply.exit_code == 0, text
victim[0].shutdown(socket.SHUT_WR)
lived = end(victim)[1].exit_code is None
print(json.dumps([json.loads(text), missing, lived]))
"""


@pytest.fixture
def outside(request: pytest.FixtureRequest) -> Iterator[int]:
    """Start a process of the same user outside all walls; yield its pid."""
    host: Host = request.getfixturevalue("host")
    process = subprocess.Popen([*host.user_prefix(), "sleep", "60"])
    yield process.pid
    process.kill()
    process.wait()


def attack(host: Host, outside: int) -> tuple[dict[str, Any], list[str], bool]:
    """Attack from one call; return what succeeded, what the host lacks, and whether the other lived."""
    if reason := unsupported(host):
        pytest.skip(reason)
    report, missing, lived = run_confined(
        host, CALLS.format(secret=SECRET, attack=ATTACK, outside=outside)
    )
    return report, missing, lived


@pytest.mark.parametrize("host", HOSTS, ids=str)
def test_a_call_reaches_no_other_call_nor_its_agent_nor_the_host(host: Host, outside: int) -> None:
    report, missing, lived = attack(host, outside)
    assert missing == []
    assert lived
    assert report == {
        "seen": 0,
        "stolen": [],
        "killed": [],
        "traced": [],
        "allowed": [],
        "sockets": [],
        "files": [0, 1, 2],
        "capabilities": [f"Cap{name}:\t{'0' * 16}" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")],
    }


@pytest.mark.parametrize("host", WITHOUT_NAMESPACES if EVERY else WITHOUT_NAMESPACES[-1:], ids=str)
def test_without_namespaces_no_memory_is_read_and_what_is_missing_is_named(
    host: Host, outside: int
) -> None:
    report, missing, lived = attack(host, outside)
    assert lived
    assert (report["stolen"], report["traced"], report["allowed"]) == ([], [], [])
    assert (report["sockets"], report["files"]) == ([], [0, 1, 2])
    assert "PID namespaces" in missing[0]
    if host.abi >= 6:
        assert report["killed"] == []
    else:
        assert "protection from signals" in missing[1]


def test_a_call_is_nicer_than_its_agent_and_stays_so() -> None:
    host = OWN_HOST
    if reason := unsupported(host):
        pytest.skip(reason)
    call = """
import os
print(os.nice(0), flush=True)
os.setpriority(os.PRIO_PROCESS, 0, 0)
"""
    output, niceness = run_confined(
        host, f"print(json.dumps([end(start({call!r}))[0], os.nice(0)]))"
    )
    own, error = output.split("\n", 1)
    assert int(own) == min(19, niceness + 3)
    assert "PermissionError" in error


ENDLESS = """
import os, time
if os.fork() == 0:
    os.environ.clear()
    os.setsid()
    if os.fork() == 0:
        open('stray', 'w').write('alive')
        while True:
            time.sleep(0.05)
            open('pulse', 'a').write('.')
    os._exit(0)
while not os.path.exists('pulse'):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("host", [OWN_HOST, replace(OWN_HOST, view=False)], ids=str)
def test_what_a_call_detached_ends_before_its_result_is_known(host: Host) -> None:
    if reason := unsupported(host):
        pytest.skip(reason)
    code = f"""
end(start({ENDLESS!r}))
import time
before = os.stat('pulse').st_size
time.sleep(0.3)
print(json.dumps([before, os.stat('pulse').st_size]))
"""
    before, after = run_confined(host, code)
    assert before == after > 0


KEYCTL = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
ADD_KEY, REQUEST_KEY, KEYCTL = (217, 218, 219) if os.uname().machine == 'aarch64' else (248, 249, 250)
READ, SEARCH, UNLINK = 11, 10, 9
SESSION, USER, USER_SESSION = (ctypes.c_long(number) for number in (-3, -4, -5))
def read(number):
    text = ctypes.create_string_buffer(100)
    size = libc.syscall(KEYCTL, READ, ctypes.c_long(number), text, ctypes.c_size_t(100))
    return text.raw[:size].decode() if number > 0 and size > 0 else ''
"""
ADD_CANARY = """
number = libc.syscall(ADD_KEY, b'user', NAME, SECRET, ctypes.c_size_t(len(SECRET)), USER)
assert number > 0, os.strerror(ctypes.get_errno())
print(number, flush=True)
sys.stdin.read()
libc.syscall(KEYCTL, UNLINK, ctypes.c_long(number), USER)
"""
FIND_CANARY = """
requested = libc.syscall(REQUEST_KEY, b'user', NAME, None, ctypes.c_long(0))
numbers = {'number': NUMBER, 'request_key': requested}
for name, keyring in (('session', SESSION), ('user', USER), ('user session', USER_SESSION)):
    numbers[name] = libc.syscall(KEYCTL, SEARCH, keyring, b'user', NAME, ctypes.c_long(0))
planted = libc.syscall(ADD_KEY, b'user', b'planted', b'x', ctypes.c_size_t(1), USER)
print(json.dumps([sorted(name for name in numbers if read(numbers[name])), planted > 0]))
"""


@pytest.fixture
def canary(request: pytest.FixtureRequest) -> Iterator[str]:
    """Add a key to the keyring of the host's user; yield the code that looks for it."""
    host: Host = request.getfixturevalue("host")
    names = f"NAME, SECRET = b'choir-canary-{os.getpid()}', {SECRET.encode()!r}\n"
    words = [*host.user_prefix(), PYTHON, "-I", "-c", KEYCTL + names + ADD_CANARY]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, text=True) as owner:
        assert owner.stdin is not None and owner.stdout is not None
        number = owner.stdout.readline()
        assert number, "this system has no keyrings"
        yield f"{KEYCTL}{names}NUMBER = {number}{FIND_CANARY}"
        owner.stdin.close()


@pytest.mark.parametrize(
    "host",
    [Host(7, root, view) for root in (True, False) for view in (True, False)],
    ids=str,
)
def test_a_call_reads_no_key_of_its_users_keyring_and_adds_none(host: Host, canary: str) -> None:
    if reason := unsupported(host):
        pytest.skip(reason)
    # A program of the same user, without walls, shows that the attack works.
    words = [*host.user_prefix(), PYTHON, "-I", "-c", canary]
    outside = subprocess.run(words, capture_output=True, text=True, check=True)
    ways, planted = json.loads(outside.stdout)
    assert {"number", "user"} <= set(ways) and planted
    assert json.loads(run_confined(host, f"print(json.dumps(end(start({canary!r}))[0]))")) == [
        [],
        False,
    ]


BOMB = """
import os, time
for _ in range(200):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
time.sleep(30)
"""
HOARD = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        kept = b'x' * 40_000_000
        time.sleep(30)
        os._exit(0)
time.sleep(30)
"""


@pytest.mark.parametrize(
    ("script", "limit", "reason"),
    [
        (BOMB, "processes=100", "processes; the limit is 100"),
        (HOARD, "memory=83886080", "MiB of memory; the limit is 80 MiB"),
    ],
    ids=["processes", "memory"],
)
def test_a_call_whose_processes_together_exceed_a_limit_is_ended_and_told_why(
    script: str, limit: str, reason: str
) -> None:
    host = OWN_HOST
    if cause := unsupported(host):
        pytest.skip(cause)
    code = f"""
_, reply = end(start({script!r}))
print(json.dumps([reply.excess, reply.exit_code, end(start('print(1)'))[0]]))
"""
    excess, exit_code, next_output = run_confined(host, code, limit)
    assert excess.endswith(reason)
    assert (exit_code, next_output) == (None, "1\n")


CREATE = """
import os
for number in range(10**9):
    os.close(os.open(f'/dev/shm/f{number}', os.O_CREAT))
"""
FILL = """
import time
for number in range(10**9):
    open(f'/dev/shm/f{number}', 'wb').write(b'x' * 10_000)
    time.sleep(0.0001)
"""
UNLINKED = """
import os, time
file = os.open('/dev/shm/f', os.O_CREAT | os.O_WRONLY)
os.unlink('/dev/shm/f')
os.posix_fallocate(file, 0, 62 << 20)
time.sleep(30)
"""
# A file system of 64 MB in the view, which other programs do not slow down.
PLACE = "/dev/shm"


@pytest.mark.parametrize(
    ("script", "limits", "reason"),
    [
        (CREATE, "max_files=10_000", "the limit is 10,000 files"),
        (FILL, "max_bytes=20_000_000", "the limit is 20 MB"),
    ],
    ids=["files", "bytes"],
)
def test_a_call_that_fills_its_workspace_is_ended_and_told_why(
    script: str, limits: str, reason: str
) -> None:
    host = OWN_HOST
    if cause := unsupported(host):
        pytest.skip(cause)
    code = f"""
_, reply = end(start({script!r}, directories=[{PLACE!r}], {limits}))
print(json.dumps([reply.excess, reply.exit_code, len(os.listdir({PLACE!r}))]))
"""
    excess, exit_code, entries = run_confined(host, code)
    assert excess.endswith(reason)
    assert exit_code is None
    assert entries > 1_000


def test_a_call_leaves_a_part_of_the_disk_free_also_with_deleted_files() -> None:
    host = OWN_HOST
    if cause := unsupported(host):
        pytest.skip(cause)
    code = f"""
_, reply = end(start({UNLINKED!r}, directories=[{PLACE!r}]))
free = os.statvfs({PLACE!r})
print(json.dumps([reply.excess, reply.exit_code, free.f_bavail == free.f_blocks]))
"""
    excess, exit_code, is_free = run_confined(host, code)
    assert excess.startswith("the disk is nearly full: ")
    assert (exit_code, is_free) == (None, True)
