"""S28: what a program reaches that took over the browser service."""

import os
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from choir_common.confinement.users import FIRST_UID
from tests.security.runtimes.confined_calls import IS_ROOT, NOBODY, Host, unsupported
from tests.security.runtimes.confined_services import SECRETS, service_place

EVERY = "CHOIR_TEST_EVERY_HOST" in os.environ
EVERY_HOST = [Host(abi, root) for abi in range(1, 8) for root in (True, False)]
HOSTS = EVERY_HOST if EVERY else [Host(1, root=True), Host(5, root=False)]
BARE_HOSTS = [Host(7, root=root, view=False) for root in (True, False)]

ATTACKS = """
outside, secrets = int(sys.argv[1]), sys.argv[2:]
user = os.getuid()
status = open('/proc/self/status').read().splitlines()
rights = {line.split()[1] for line in status if line.startswith(('CapInh', 'CapPrm', 'CapEff', 'CapAmb'))}
x86 = os.uname().machine == 'x86_64'
def call(function, *arguments):
    if function(*arguments) == -1:
        raise OSError(ctypes.get_errno(), 'system call')
def mount():
    libc.unshare(0x10020000)
    call(libc.mount, b'tmpfs', b'/', b'tmpfs', 0, None)
def read(path):
    return lambda: open(path, 'rb').read()
attempts = {name: read(f'{home}/{name}') for name in secrets} | {
    'files': lambda: open(home + '/new', 'w'),
    'program': lambda: open(__import__('socket').__file__, 'w'),
    'socket': lambda: socket.socket(socket.AF_UNIX).connect(home + '/socks/choird.sock'),
    'signal': lambda: os.kill(outside, 0),
    'trace': lambda: call(libc.ptrace, 16, outside, 0, 0),
    'memory': lambda: open(f'/proc/{outside}/mem', 'rb'),
    'environment': read(f'/proc/{outside}/environ'),
    'keyring': lambda: call(libc.syscall, 250 if x86 else 219, 0, -4, 0),
    'io_uring': lambda: call(libc.syscall, 425, 1, 0),
    'bpf': lambda: call(libc.syscall, 321 if x86 else 280, 0, 0, 0),
    'packets': lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    'kernel': lambda: open('/proc/sys/kernel/printk', 'w'),
    'mount': mount,
}
done = []
for name, deed in attempts.items():
    try:
        deed()
        done.append(name)
    except OSError:
        pass
print(json.dumps({'missing': missing, 'done': done, 'rights': sorted(rights), 'user': user}))
"""


@pytest.fixture
def outside(host: Host) -> Iterator[int]:
    """Start a process of the same user outside all walls; yield its pid."""
    if reason := unsupported(host):
        pytest.skip(reason)
    with subprocess.Popen([*host.user_prefix(), "/bin/sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("host", HOSTS, ids=str)
def test_a_browser_service_that_was_taken_over_reaches_nothing_but_its_own(
    host: Host, outside: int
) -> None:
    with service_place(host) as place:
        report = place.run(ATTACKS, outside, *SECRETS)
    assert report["missing"] == report["done"] == []
    assert report["rights"] == ["0" * 16]
    if host.root:
        assert report["user"] >= FIRST_UID
    elif os.geteuid() == 0:
        assert report["user"] == NOBODY


@pytest.mark.parametrize("host", BARE_HOSTS, ids=str)
def test_without_namespaces_landlock_protects_the_files_and_the_rest_is_named(
    host: Host, outside: int
) -> None:
    with service_place(host) as place:
        report = place.run(ATTACKS, outside, *SECRETS)
    assert report["done"] == ["socket"]
    words = ["a user of its own"] * host.root + ["namespaces"]
    assert [text.partition(" (")[0] for text in report["missing"]] == words


@pytest.mark.parametrize("host", HOSTS, ids=str)
def test_a_confined_service_uses_its_own_directories_and_standard_input(host: Host) -> None:
    if reason := unsupported(host):
        pytest.skip(reason)
    # Another user cannot open the pipe of root, who runs the tests, by its name.
    source = "/dev/stdin" if host.root else 0
    code = f"""
source = {source!r}
names = [home + '/socks/browser/b.sock', home + '/run/browser/file']
server = socket.socket(socket.AF_UNIX)
server.bind(names[0])
open(names[1], 'w').write('x')
print(json.dumps([open(source).read(), [os.stat(name).st_uid == os.getuid() for name in names]]))
"""
    with service_place(host) as place:
        owner = place.home.stat().st_uid
        assert place.run(code, stdin="key") == ["key", [True, True]]
        made = [place.home / "socks/browser/b.sock", place.home / "run/browser/file"]
        # on disk they are the stack's
        assert [path.stat().st_uid for path in made] == [owner, owner]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_confined_service_ends_with_its_process_and_leaves_none_behind(
    number: signal.Signals,
) -> None:
    host = Host(1, root=IS_ROOT)
    if reason := unsupported(host):
        pytest.skip(reason)
    code = """
import signal, subprocess
child = subprocess.Popen(['/bin/sleep', '60'], start_new_session=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print('ready', flush=True)
while True:
    signal.pause()
"""
    with service_place(host) as place, place.start(code) as service:
        assert service.stdout is not None and service.stdout.readline() == "ready\n"
        processes = psutil.Process(service.pid).children(recursive=True)
        service.send_signal(number)
        assert service.wait(30) == (7 if number is signal.SIGTERM else -number)
        gone, alive = psutil.wait_procs(processes, timeout=30)
    assert len(gone) >= 3 and alive == []


def test_orphans_of_a_confined_service_are_reaped() -> None:
    host = Host(1, root=IS_ROOT)
    if reason := unsupported(host):
        pytest.skip(reason)
    code = """
import time
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.1)
    os._exit(0)
os.wait()
deadline = time.monotonic() + 30
while len(pids := [name for name in os.listdir('/proc') if name.isdigit()]) > 2:
    assert time.monotonic() < deadline, pids
    time.sleep(0.02)
print(json.dumps(sorted(map(int, pids))[0]))
"""
    with service_place(host) as place:
        assert place.run(code) == 1
