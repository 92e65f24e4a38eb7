"""S3, S17 for the process runtime: what a malicious program in the agent's place can reach.

Each test starts a real child the way control starts an agent and lets it try.
"""

import json
import os
import socket

import pytest

from tests.security.runtimes.confined import TOKEN, confining
from tests.security.runtimes.confined_calls import (
    IS_ROOT,
    NOBODY,
    Host,
    newest_landlock,
    run_confined,
    unsupported,
)

pytestmark = pytest.mark.skipif(
    newest_landlock() == 0,
    reason="NO LANDLOCK IN THIS KERNEL: the confinement of agents is not tested here",
)


async def test_a_confined_agent_uses_its_workspace_and_its_temporary_directory() -> None:
    code = """
Path('deep/er').mkdir(parents=True)
Path('deep/er/file').write_text('mine')
Path('deep/er/file').rename('moved')
Path(os.environ['TMPDIR'], 'scratch').write_text('mine')
line = 'echo hello | cat > shell && cat shell'
tool = subprocess.run(['sh', '-c', line], capture_output=True, text=True)
report({'read': Path('moved').read_text(), 'tool': tool.stdout, 'error': tool.stderr,
        'soul': Path(boot['choir_dir'], 'SOUL.md').read_text(), 'home': os.environ['HOME'],
        'null': attempt(lambda: open('/dev/null', 'w').write('x'))[0]})
"""
    async with confining(code) as place:
        spec = place.spec()
        await place.runtime.start(spec)
        report = await place.report()
    assert report == {
        "read": "mine",
        "tool": "hello\n",
        "error": "",
        "soul": "kind",
        "home": str(spec.workspace),
        "null": "done",
    }


async def test_a_confined_agent_reads_nothing_else_of_the_state_directory() -> None:
    code = """
home = Path(boot['workspace']).parent.parent
def mount():
    if ctypes.CDLL(None).mount(b'/', b'/', None, 4096, None) != 0:
        raise OSError('refused')
report({
    'secrets': attempt((home / 'secrets.json').read_text),
    'climb': attempt(Path('../../secrets.json').read_text),
    'proc': attempt(Path('/proc/self/root' + str(home / 'secrets.json')).read_text),
    'parent root': attempt(Path(f'/proc/{os.getppid()}/root{home}/secrets.json').read_text),
    'parent cwd': attempt(lambda: os.listdir(f'/proc/{os.getppid()}/cwd')),
    'parent environment': attempt(Path(f'/proc/{os.getppid()}/environ').read_bytes),
    'parent memory': attempt(lambda: open(f'/proc/{os.getppid()}/mem', 'rb').read(1)),
    'link': attempt(lambda: (os.symlink(home / 'secrets.json', 'link'), Path('link').read_text())),
    'hard link': attempt(lambda: os.link(home / 'secrets.json', 'hard')),
    'other workspace': attempt(lambda: os.listdir(home / 'workspaces' / 'other')),
    'other file': attempt((home / 'workspaces' / 'other' / 'diary').read_text),
    'other socket': attempt(lambda: os.listdir(home / 'socks' / 'agents' / 'other')),
    'sockets': attempt(lambda: [name for name in os.listdir(home / 'socks') if name != 'agents'][0]),
    'logs': attempt(lambda: os.listdir(home / 'logs')),
    'own identity': attempt(lambda: Path(boot['choir_dir'], 'SOUL.md').write_text('evil')),
    'shadow': attempt(Path('/etc/shadow').read_text),
    'root home': attempt(lambda: os.listdir('/root/.ssh')),
    'system': attempt(lambda: Path('/usr/bin/planted').write_text('x')),
    'sources': attempt(lambda: Path(sys.prefix, 'planted').write_text('x')),
    'mount': attempt(mount),
})
"""
    async with confining(code) as place:
        other = place.spec("other")
        (other.workspace / "diary").write_text("private")
        (place.home / "socks" / "choird.sock").touch()
        await place.runtime.start(place.spec())
        report = await place.report()
    assert {what: result for what, result in report.items() if result[0] != "refused"} == {}


async def test_a_confined_agent_has_no_secret_in_its_environment_or_arguments() -> None:
    code = "report({'environment': dict(os.environ), 'arguments': Path('/proc/self/cmdline').read_text()})"
    secrets = {"OPENAI_API_KEY": "sk-real", "CHOIR_SECRETS_FILE": "/run/x", "LANG": "en_US.UTF-8"}
    async with confining(code, {**os.environ, **secrets}) as place:
        await place.runtime.start(place.spec())
        report = await place.report()
        files = [path for path in place.home.rglob("*") if path.is_file()]
        holders = [path for path in files if TOKEN.encode() in path.read_bytes()]
    allowed = {"PATH", "LANG", "LC_ALL", "TZ", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    allowed |= {"PYTHONDONTWRITEBYTECODE", "MALLOC_ARENA_MAX", "CHOIR_LOG_LEVEL", "LC_CTYPE"}
    # a descriptor's number
    allowed.add("CHOIR_CALL_LAUNCHER")
    assert set(report["environment"]) <= allowed
    assert TOKEN not in json.dumps(report)
    assert holders == []


async def test_a_confined_agent_has_no_privileges_and_cannot_gain_any() -> None:
    code = """
status = dict(line.split(':', 1) for line in Path('/proc/self/status').read_text().splitlines())
names = ('NoNewPrivs', 'CapInh', 'CapPrm', 'CapEff', 'CapAmb', 'Umask')
report({name: status[name].strip() for name in names})
"""
    async with confining(code) as place:
        await place.runtime.start(place.spec())
        report = await place.report()
    none = "0" * 16
    assert report == {
        "NoNewPrivs": "1",
        "CapInh": none,
        "CapPrm": none,
        "CapEff": none,
        "CapAmb": none,
        "Umask": "0077",
    }


async def test_a_confined_agent_is_limited_in_what_it_uses_up() -> None:
    code = """
report({name: resource.getrlimit(getattr(resource, f'RLIMIT_{name}'))
        for name in ('CORE', 'NOFILE', 'FSIZE', 'DATA', 'AS', 'NPROC')})
"""
    async with confining(code) as place:
        await place.runtime.start(place.spec())
        report = await place.report()
    assert report["CORE"] == [0, 0]
    for name, ceiling in (
        ("NOFILE", 4_096),
        ("FSIZE", 8 << 30),
        ("DATA", 4 << 30),
        ("AS", 64 << 30),
        ("NPROC", 2_048),
    ):
        soft, hard = report[name]
        assert 0 < soft == hard <= ceiling, name


async def test_a_confined_agent_cannot_signal_or_stop_control() -> None:
    # its parent has no number in a PID namespace
    code = f"""
report({{'kill': attempt(lambda: os.kill({os.getpid()}, 0)),
        'own tool': attempt(lambda: subprocess.Popen(['sleep', '9']).kill())[0]}})
"""
    async with confining(code) as place:
        await place.runtime.start(place.spec())
        report = await place.report()
    assert report["kill"][0] == "refused"
    assert report["own tool"] == "done"


async def test_a_confined_agent_reaches_its_own_socket_and_no_other() -> None:
    """Landlock alone does not stop connecting by path: the private view of the file tree does."""
    code = """
home = Path(boot['workspace']).parent.parent
def connect(path):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
report({
    'own': attempt(lambda: connect(boot['endpoint'].removeprefix('unix://'))),
    'operator': attempt(lambda: connect(str(home / 'socks' / 'choird.sock'))),
    'other': attempt(lambda: connect(str(home / 'socks' / 'agents' / 'other' / 'choir.sock'))),
    'abstract': attempt(lambda: connect('\\0choir-test-abstract')),
})
"""
    async with confining(code) as place:
        spec, other = place.spec(), place.spec("other")
        listening = [
            str(spec.socket_dir / "choir.sock"),
            str(other.socket_dir / "choir.sock"),
            str(place.home / "socks" / "choird.sock"),
            "\0choir-test-abstract",
        ]
        sockets = []
        for path in listening:
            door = socket.socket(socket.AF_UNIX)
            door.bind(path)
            door.listen()
            sockets.append(door)
        try:
            await place.runtime.start(spec)
            report = await place.report()
            mounts_hidden = place.runtime.has_private_view
        finally:
            for door in sockets:
                door.close()
    assert report["own"][0] == "done"
    if not mounts_hidden:
        pytest.skip("NO MOUNT NAMESPACES HERE: other sockets are guarded by their owners alone")
    assert report["operator"][0] == "refused"
    assert report["other"][0] == "refused"
    if newest_landlock() >= 6:
        assert report["abstract"][0] == "refused"


async def test_the_environment_of_an_agent_that_hardened_itself_is_closed_to_its_own_tools() -> (
    None
):
    """The same user, even root without capabilities, cannot read the process that holds the token."""
    code = """
from choir_agent.process_startup import harden_process
harden_process()
spy = "import os; print(open(f'/proc/{os.getppid()}/environ', 'rb').read())"
tool = subprocess.run([sys.executable, '-I', '-c', spy], capture_output=True, text=True)
report({'code': tool.returncode, 'said': tool.stderr.strip().splitlines()[-1:]})
"""
    async with confining(code) as place:
        await place.runtime.start(place.spec())
        report = await place.report()
    assert report["code"] == 1
    assert "PermissionError" in report["said"][0]


async def test_a_module_in_the_workspace_is_not_imported_by_the_agent() -> None:
    async with confining("import choir_common; report(choir_common.__file__)") as place:
        spec = place.spec()
        (spec.workspace / "choir_common.py").write_text("raise SystemExit('hijacked')")
        await place.runtime.start(spec)
        assert "workspaces" not in await place.report()


def test_the_confinement_holds_for_an_ordinary_user_too() -> None:
    """As root the view needs no user namespace; as anybody else it does."""
    host = Host(newest_landlock(), root=False)
    if reason := unsupported(host):
        pytest.skip(reason)
    code = """
from pathlib import Path
Path('ok').touch()
status = Path('/proc/self/status').read_text().splitlines()
print(json.dumps({'user': os.getuid(), 'files': os.listdir(), 'beside': sorted(os.listdir('..')),
                  'capabilities': [line.split()[1] for line in status if line.startswith('CapEff')]}))
"""
    assert run_confined(host, code) == {
        "user": NOBODY if IS_ROOT else os.geteuid(),
        "files": ["ok"],
        "beside": ["package", "workspace"],
        "capabilities": ["0" * 16],
    }


async def test_two_agents_see_nothing_of_each_other() -> None:
    code = """
others = [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()]
def cmdline(pid):
    return Path(f'/proc/{pid}/cmdline').read_bytes()
def is_twin(pid):
    try:
        return b'two_agents_marker' in cmdline(pid)
    except OSError:  # another agent's, or a process that has just ended
        return False
twins = [pid for pid in others if is_twin(pid)]
report({'twins': len(twins), 'signals': [attempt(lambda: os.kill(pid, 0)) for pid in twins],
        'memory': [attempt(lambda: open(f'/proc/{pid}/mem', 'rb').read(1)) for pid in twins]})
time.sleep(600)  # two_agents_marker
"""
    async with confining(code) as place:
        await place.runtime.start(place.spec("first"))
        await place.report("first")
        await place.runtime.start(place.spec("second"))
        report = await place.report("second")
    assert report["twins"] >= 1
    assert {result[0] for result in report["signals"] + report["memory"]} == {"refused"}
