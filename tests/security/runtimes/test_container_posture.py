"""S17: the posture of an agent's container, in the create request and as seen from inside."""

import dataclasses
import json
import os
import socket
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from choir_control.agents.runtimes.containers import ContainerLimits, boot_line
from choir_control.agents.runtimes.docker.container import (
    Installation,
    container_create_request,
    container_name,
    trial_create_request,
    trial_name,
)
from choir_control.agents.runtimes.port import LaunchSpec
from choir_control.images.docker_builder import DockerImageBuilder
from tests.security.runtimes.confined import PRELUDE, TOKEN
from tests.service.images.forge import Forge, Told
from tests.service.runtimes.containers import PYTHON_IMAGE, image_that_runs, owner, yard_for

GOLDEN = Path(__file__).parent / "golden" / "agent_container.json"
HOME = Path("/home/ann/.choir.d")
SPEC = LaunchSpec(
    agent_id="main",
    session_id="ses_1",
    epoch=3,
    lease_token=TOKEN,
    workspace=HOME / "workspaces/main",
    choir_dir=HOME / "agents/main/choir",
    socket_dir=HOME / "socks/agents/main",
)
SITE = Installation(
    HOME, "choir-agent:local", "choir_agents", 1000, 1000, "info", ContainerLimits()
)


def test_the_create_request_is_the_one_that_was_reviewed() -> None:
    """A change here moves the boundary: review it against docs/design/security.md, then update the file."""
    assert container_create_request(SITE, SPEC) == json.loads(GOLDEN.read_text())


def test_with_the_egress_proxy_a_container_has_no_network() -> None:
    spec = replace(SPEC, egress_key="ab" * 32)
    host = container_create_request(SITE, spec)["HostConfig"]
    plain = json.loads(GOLDEN.read_text())["HostConfig"]
    del plain["ExtraHosts"]
    assert host == {**plain, "NetworkMode": "none"}
    assert spec.egress_key not in json.dumps(host)
    assert b"/run/choir/proxy.sock" in boot_line(spec)


def test_the_lease_token_is_not_in_the_create_request() -> None:
    assert TOKEN not in json.dumps(container_create_request(SITE, SPEC))
    assert TOKEN.encode() in boot_line(SPEC)


def test_installations_on_one_engine_do_not_meet() -> None:
    other = Installation(Path("/home/bob/.choir.d"), "x", "y", 1, 1, "info", ContainerLimits())
    assert container_name(SITE, "main") != container_name(other, "main")


def test_the_trial_of_a_tool_differs_from_an_agent_in_its_program_only() -> None:
    trial = trial_create_request(SITE, replace(SPEC, docker_image="sha256:1"))
    agent = json.loads(GOLDEN.read_text())
    assert {name for name in trial if trial[name] != agent.get(name)} == {
        "Image", "Entrypoint", "Cmd",
    }  # fmt: skip
    assert trial["Image"] == "sha256:1"
    assert trial_name(SITE, "main") != container_name(SITE, "main")


PROBE = """
status = dict(line.split(':', 1) for line in Path('/proc/self/status').read_text().splitlines())
def connect(path):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
def limit(name, old):
    for path in (f'/sys/fs/cgroup/{name}', f'/sys/fs/cgroup/{old}'):
        if os.path.exists(path):
            return Path(path).read_text().strip()
def run_from_tmp():
    Path('/tmp/tool').write_text('#!/bin/sh\\n')
    os.chmod('/tmp/tool', 0o755)
    subprocess.run(['/tmp/tool'], check=True)
report({
    'status': {name: status[name].strip() for name in
               ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp')},
    'user': f'{os.getuid()}:{os.getgid()}',
    'environment': dict(os.environ),
    'root files': attempt(lambda: Path('/planted').write_text('x')),
    'system files': attempt(lambda: Path('/usr/bin/planted').write_text('x')),
    'identity': attempt(lambda: Path('/choir/SOUL.md').write_text('evil')),
    'socket directory': attempt(lambda: Path('/run/choir/planted').write_text('x')),
    'engine socket': [path for path in ('/var/run/docker.sock', '/run/docker.sock') if os.path.exists(path)],
    'mount': attempt(lambda: subprocess.run(['mount', '-t', 'tmpfs', 'x', '/mnt'], check=True)),
    'device': attempt(lambda: os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0))),
    'network': sorted(os.listdir('/sys/class/net')),
    'first process': Path('/proc/1/comm').read_text().strip(),
    'run from /tmp': attempt(run_from_tmp),
    'own socket': attempt(lambda: connect('/run/choir/choir.sock'))[0],
    'workspace': attempt(lambda: Path('/workspace/file').write_text('mine'))[0],
    'tmp': attempt(lambda: Path('/tmp/file').write_text('mine'))[0],
    'hostname files': sorted(os.listdir('/run/choir')),
    'pids': limit('pids.max', 'pids/pids.max'),
    'memory': limit('memory.max', 'memory/memory.limit_in_bytes'),
    'core': resource.getrlimit(resource.RLIMIT_CORE),
})
time.sleep(60)
"""


async def test_the_container_holds_what_the_request_says() -> None:
    limits = ContainerLimits(memory_bytes=256 << 20, pids=77)
    with image_that_runs(PROBE) as image:
        async with yard_for(image, limits) as yard:
            spec = yard.spec()
            yard.spec("other")
            door = socket.socket(socket.AF_UNIX)
            door.bind(str(spec.socket_dir / "choir.sock"))
            door.listen()
            with door:
                await yard.runtime.start(spec)
                report = await yard.report()
            inspected = yard.containers()[0].attrs
    check_posture(report, inspected, {"/workspace", "/choir", "/run/choir"})


def check_posture(report: dict[str, Any], inspected: dict[str, Any], mounts: set[str]) -> None:
    """Compare what an agent found, and what the engine reports, with docs/design/security.md."""
    none = "0" * 16
    assert report["status"] == {
        "CapInh": none,
        "CapPrm": none,
        "CapEff": none,
        "CapBnd": none,
        "CapAmb": none,
        "NoNewPrivs": "1",
        "Seccomp": "2",
    }
    assert report["user"] == owner()
    refused = ("root files", "system files", "identity", "socket directory", "mount", "device")
    assert {name: report[name][0] for name in refused} == dict.fromkeys(refused, "refused")
    assert report["run from /tmp"] == ["refused", "PermissionError"]
    assert report["engine socket"] == []
    assert report["network"] == ["lo"]
    assert report["first process"] == "docker-init"
    assert [report[name] for name in ("own socket", "workspace", "tmp")] == ["done"] * 3
    assert report["hostname files"] == ["choir.sock"]
    assert (report["pids"], report["memory"]) == ("77", str(256 << 20))
    assert report["core"] == [0, 0]
    assert TOKEN not in json.dumps(report)
    assert TOKEN not in json.dumps(inspected)
    assert inspected["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"]
    assert {mount["Destination"] for mount in inspected["Mounts"]} == mounts


NASTY = """
FROM choir-base
USER nobody
ENV HOME=/evil LD_LIBRARY_PATH=/evil CHOIR_LOG_LEVEL=debug
USER root
RUN cp /bin/sh /usr/bin/setuid-sh && chown 4242 /usr/bin/setuid-sh && chmod 4755 /usr/bin/setuid-sh
RUN mkdir -p /opt/agent/bin /run/choir && chmod 777 /run/choir
COPY probe /opt/agent/bin/python
HEALTHCHECK --interval=1s CMD touch /workspace/checked
STOPSIGNAL SIGUSR1
EXPOSE 9400
USER nobody
ENTRYPOINT ["/bin/false"]
CMD ["/bin/false"]
"""


async def test_a_built_image_is_held_as_hard_whatever_its_dockerfile_says(tmp_path: Path) -> None:
    """S17 for images of agents: their Dockerfile has no say in what holds them."""
    limits = ContainerLimits(memory_bytes=256 << 20, pids=77)
    setuid = (
        "attempt(lambda: subprocess.check_output(['setuid-sh', '-p', '-c', 'id -u'], text=True))"
    )
    look = PROBE.replace("report({", f"report({{'setuid': {setuid},", 1)
    forge = Forge(tmp_path, DockerImageBuilder(tmp_path / "home", PYTHON_IMAGE))
    forge.own.commit(
        {"Dockerfile": NASTY, "probe": f"#!/usr/local/bin/python\n{PRELUDE}{look}"}, ("probe",)
    )
    built = await forge.images.build("main", Told())
    async with yard_for("choir-agent:unused", limits) as yard:
        try:
            spec = dataclasses.replace(yard.spec(), docker_image=built.image.place)
            door = socket.socket(socket.AF_UNIX)
            door.bind(str(spec.socket_dir / "choir.sock"))
            door.listen()
            with door:
                await yard.runtime.start(spec)
                report = await yard.report()
            inspected = yard.containers()[0].attrs
        finally:
            await yard.runtime.stop("main", 0)
            yard.client.images.remove(built.image.place, force=True)
    # its own /choir, so nothing is mounted there
    check_posture(report, inspected, {"/workspace", "/run/choir"})
    assert report["setuid"] == ["done", repr(f"{os.getuid()}\n")]
    assert report["environment"]["HOME"] == "/workspace"
    assert report["environment"]["CHOIR_LOG_LEVEL"] == "info"
    assert inspected["Config"]["Healthcheck"]["Test"] == ["NONE"]
    assert inspected["Config"]["StopSignal"] == "SIGTERM"


RUNAWAY = """
def fork_bomb():
    children = []
    try:
        while len(children) < 1000:
            child = os.fork()
            if child == 0:
                time.sleep(600)
            children.append(child)
    except OSError:
        pass
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return len(children)
def grow():
    child = os.fork()
    if child == 0:
        hoard = [b'x' * (1 << 20) for _ in range(1024)]
        os._exit(len(hoard) and 0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])
def fill(path, most):
    written = 0
    try:
        with open(path, 'wb') as file:
            while written < most:
                written += file.write(b'x' * (1 << 20))
    except OSError:
        pass
    os.remove(path)
    return written >> 20
report({
    'forks': fork_bomb(),
    'killed by': grow(),
    'run, MB': fill('/run/ballast', 64 << 20) if os.access('/run', os.W_OK) else 0,
    'open files': resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    'host processes': len([name for name in os.listdir('/proc') if name.isdigit()]),
    'kernel settings': attempt(lambda: Path('/proc/sys/kernel/panic').write_text('1')),
    'kernel memory': attempt(lambda: Path('/proc/kcore').read_bytes()[:1] or 1 / 0),
    'user namespace': attempt(lambda: subprocess.run(['unshare', '-U', 'true'], check=True)),
    'devices': sorted(os.listdir('/dev')),
})
time.sleep(60)
"""


async def test_the_limits_hold_an_agent_that_wants_everything() -> None:
    """A fork bomb, a hoarder of memory and a filler of disks end inside; the agent itself lives on."""
    limits = ContainerLimits(memory_bytes=256 << 20, pids=77)
    with image_that_runs(RUNAWAY) as image:
        async with yard_for(image, limits) as yard:
            spec = yard.spec()
            await yard.runtime.start(spec)
            report = await yard.report()
    assert 0 < report["forks"] < 77
    assert report["killed by"] == 9
    assert report["run, MB"] <= 8
    assert report["open files"] == 4096
    assert report["host processes"] < 10
    for name in ("kernel settings", "kernel memory", "user namespace"):
        assert report[name][0] == "refused", (name, report[name])
    assert not [name for name in report["devices"] if name.startswith(("sd", "nvme", "vd", "kvm"))]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
async def test_a_container_of_another_user_could_not_open_the_socket_directory() -> None:
    """One 0700 directory per agent holds even where two agents ran under two users."""
    code = "report(attempt(lambda: os.listdir('/run/choir')))"
    with image_that_runs(code) as image:
        async with yard_for(image) as yard:
            spec = yard.spec()
            spec.socket_dir.chmod(stat.S_IRWXU)
            os.chown(spec.socket_dir, 4242, 4242)
            await yard.runtime.start(spec)
            assert (await yard.report())[0] == "refused"


def test_an_agent_is_told_of_a_collector_only_where_there_is_one() -> None:
    """Its environment is otherwise the same: what else a collector may need is not an agent's to know."""
    name = "OTEL_EXPORTER_OTLP_ENDPOINT"
    plain = container_create_request(SITE, SPEC)
    told = container_create_request(replace(SITE, otlp_endpoint="http://collector:4318"), SPEC)
    assert name not in json.dumps(plain)
    assert told["Env"] == [*plain["Env"], f"{name}=http://collector:4318"]  # type: ignore[misc]
