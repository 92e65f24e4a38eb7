"""Choir in containers: the same conversation, the agents' posture, and a control that is killed.

Real engine, real images built from this checkout; skipped, loudly, only where no engine answers.
"""

import asyncio
import dataclasses
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from choir_common.http.client import make_client
from choir_common.wire.events import Reply, UserMessageStarted, parse_payload
from tests.compose.containers import PAGE_HOST, ROOT, ComposeStack, docker, running_containers
from tests.journey.conversation import (
    NOTE,
    SCORE,
    check_logs,
    hold_conversation,
    leave_a_note,
)
from tests.support.repositories import GitRepository
from tests.support.stack import console_user, read_log, sessions_of, verify

pytestmark = pytest.mark.timeout(1800)
MEND_WITHIN_S = 300
BUILT_WITHIN_S = 600


@pytest.fixture(scope="module")
def stack() -> Iterator[ComposeStack]:
    """Bring up a stack whose home belongs to an ordinary user, also when root runs the tests."""
    owner = 1000 if os.geteuid() == 0 else None
    with running_containers(SCORE, owner) as stack:
        leave_a_note(stack)
        yield stack


async def test_the_first_conversation_in_containers(stack: ComposeStack) -> None:
    async with console_user(stack.endpoint) as user:
        await hold_conversation(stack, user.asks, PAGE_HOST)
    await check_logs(stack)


async def test_the_same_over_https_with_the_operator_token(stack: ComposeStack) -> None:
    ca_pem = (stack.home / "tls/ca.pem").read_text()
    token = stack.secret("operator-token")
    async with console_user(stack.https, token=token, ca_pem=ca_pem) as user:
        assert NOTE in await user.asks("read the note again")


async def test_files_go_both_ways_over_https_and_outlive_the_gateways_container(
    stack: ComposeStack,
) -> None:
    """Control brings the gateway its certificates, and what waits to be fetched lies in a volume."""
    ca_pem = (stack.home / "tls/ca.pem").read_text()
    console = "/v1/dms/console"
    async with console_user(
        stack.https, token=stack.secret("operator-token"), ca_pem=ca_pem
    ) as user:
        plan = {"path": ".choirtmp/send/plan.md"}
        await user.asks(f"/tool choir.fs.write {json.dumps({**plan, 'content': 'the plan'})}")
        await user.asks(f"/tool choir.message.send {json.dumps({'files': [plan]})}")
        (sent,) = [message for message in user.heard if message.attachments]
        put = await user.client.put(f"{console}/files?name=n.txt", content=b"4711")
        recreate = ("up", "--wait", "--no-deps", "--force-recreate", "gateway")
        await asyncio.to_thread(stack.compose, *recreate)
        ref = sent.attachments[0].ref
        got = await user.client.get(f"{console}/messages/{sent.outbox_id}/files/{ref}")
        assert got.content == b"the plan", got.text
        said = {"text": "look at this", "files": [put.json()["ref"]]}
        accepted = await user.client.post(f"{console}/messages", json=said)
        await user.wait_for_answer(accepted.json()["inbox_id"])
        newest = (await sessions_of(stack))[0]["session_id"]
        words = [parse_payload(event) for event in await read_log(stack, newest)]
        (path,) = [
            f.path for it in words if isinstance(it, UserMessageStarted) for f in it.attachments
        ]
        assert "4711" in await user.asks(f"/tool choir.fs.read {json.dumps({'path': path})}")


async def test_the_port_takes_no_plain_http_and_no_stranger(stack: ComposeStack) -> None:
    async with make_client(stack.url) as plain:
        with pytest.raises(httpx2.TransportError):
            await plain.get("/livez")
    ca_pem = (stack.home / "tls/ca.pem").read_text()
    async with make_client(stack.https, ca_pem=ca_pem) as stranger:
        assert (await stranger.get("/v1/agents")).status_code == 401


def test_an_agents_container_is_as_hard_as_promised(stack: ComposeStack) -> None:
    """S17, on the container that control really made."""
    (agent,) = stack.agent_containers()
    host, config = agent["HostConfig"], agent["Config"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert set(host["Tmpfs"]) == {"/tmp", "/run"}
    assert host["Memory"] == host["MemorySwap"] == 1024 << 20
    assert (host["NanoCpus"], host["PidsLimit"]) == (1_000_000_000, 512)
    assert host["NetworkMode"] == "none"
    assert not (host["PidMode"] or host["UsernsMode"] or host["Devices"])
    assert host["IpcMode"] == "private"
    mounts = {mount["Destination"]: mount["RW"] for mount in agent["Mounts"]}
    assert mounts == {"/workspace": True, "/choir": False, "/run/choir": False}
    labels = config["Labels"]
    assert labels["choir.managed"] == "true"
    assert labels["choir.agent"] == "main"
    assert labels["choir.session"].startswith("ses")
    assert int(labels["choir.epoch"]) >= 1
    secrets = [*json.loads((stack.home / "secrets.json").read_text()).values()]
    assert [value for value in secrets if value in json.dumps(agent)] == []
    owner = (stack.home / "config.json").stat()
    assert config["User"] == f"{owner.st_uid}:{owner.st_gid}"


PORTS = {
    "postgres": 5432,
    "nats": 4222,
    "control": 9400,
    "gateway": 9401,
    "memory": 9402,
    "browser": 9403,
    "egress": 9404,
    "rehearsal": 8080,
}


def test_an_agent_has_no_network_and_reaches_no_service(stack: ComposeStack) -> None:
    """It answered with a model nevertheless: the conversation above went through the egress proxy."""
    (agent,) = stack.agent_containers()
    targets = [
        (network["IPAddress"], port)
        for name, port in PORTS.items()
        for network in stack.service(name)["NetworkSettings"]["Networks"].values()
    ]
    assert len(targets) > len(PORTS)
    probe = f"""
import os, socket
def reaches(target):
    try:
        socket.create_connection(target, 2).close()
        return True
    except OSError:
        return False
print(os.listdir('/sys/class/net'), [target for target in {targets!r} if reaches(target)])
"""
    said = docker("exec", agent["Id"], "/opt/agent/bin/python", "-I", "-c", probe)
    assert said.strip() == "['lo'] []"


def test_no_secret_is_in_any_environment_or_command(stack: ComposeStack) -> None:
    names = (*PORTS, "setup")
    own = json.loads(
        stack.compose("exec", "-T", "memory", "cat", "/run/choir-secrets/secrets.json")
    )
    values = [*own.values(), *json.loads((stack.home / "secrets.json").read_text()).values()]
    for name in names:
        described = json.dumps(stack.service(name)["Config"])
        assert [value for value in values if value in described] == [], name


def test_services_run_without_privileges(stack: ComposeStack) -> None:
    for name in ("control", "backups", "egress", "memory", "gateway", "browser", "rehearsal"):
        container = stack.service(name)
        assert container["HostConfig"]["ReadonlyRootfs"] is True
        assert container["HostConfig"]["CapDrop"] == ["ALL"]
        assert container["HostConfig"]["Memory"] > 0
        users = docker("top", container["Id"], "-eo", "pid,uid,args").splitlines()[1:]
        # without the engine's own health checks, which come and go
        running = {line.split()[1] for line in users if "choir_" in line}
        owner = str((stack.home / "config.json").stat().st_uid)
        enters = name in ("control", "backups", "egress")
        assert running == {owner if enters else "10001"}, (name, users)
        # not the service itself: nothing inside could end process 1 when it hangs
        init = docker("exec", container["Id"], "cat", "/proc/1/comm").strip()
        assert init == ("tini" if enters else "docker-init"), name


def test_the_sockets_belong_to_the_owner_of_the_home_alone(stack: ComposeStack) -> None:
    owner = stack.home.stat().st_uid
    for path in (stack.home / "socks", stack.home / "socks" / "agents" / "main"):
        found = path.stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (owner, 0o700)
    for path in ("choird.sock", "agents/main/proxy.sock"):
        assert (stack.home / "socks" / path).stat().st_uid == owner


async def wait_until_ready(stack: ComposeStack, restarts: int) -> None:
    """Wait until control has been restarted by the engine and is healthy."""
    async with asyncio.timeout(MEND_WITHIN_S):
        while True:
            state: dict[str, Any] = await asyncio.to_thread(stack.service, "control")
            if state["RestartCount"] > restarts and state["State"]["Health"]["Status"] == "healthy":
                return
            await asyncio.sleep(0.5)


def kill_from_outside(container: dict[str, Any]) -> None:
    """`kill -9` a container's first process as a crash would: the engine must not know who did it."""
    pid = container["State"]["Pid"]
    image = "python:3.13-slim-trixie"
    docker("run", "--rm", "--pid=host", "--user=0", image, "sh", "-c", f"kill -9 {pid}")


async def test_a_control_killed_in_the_middle_of_a_turn_loses_nothing(stack: ComposeStack) -> None:
    call = json.dumps({"command": "echo once >> ledger.txt"})
    before = await asyncio.to_thread(stack.service, "control")
    (old_agent,) = await asyncio.to_thread(stack.agent_containers)
    async with console_user(stack.endpoint) as user:
        inbox_id = await user.says(f"#delay=1500 #tools=2 #tool=choir.exec {call}")
        await asyncio.sleep(1.0)
        await asyncio.to_thread(kill_from_outside, before)
        answer = await user.wait_for_answer(inbox_id, MEND_WITHIN_S)
    assert answer.text
    await wait_until_ready(stack, before["RestartCount"])
    (agent,) = await asyncio.to_thread(stack.agent_containers)
    assert agent["Id"] != old_agent["Id"]
    newest = (await sessions_of(stack))[0]["session_id"]
    assert agent["Config"]["Labels"]["choir.session"] == newest
    assert (await verify(stack, newest)).ok
    replies = [parse_payload(event) for event in await read_log(stack, newest)]
    answers = [reply for reply in replies if isinstance(reply, Reply) and reply.answers == inbox_id]
    assert len([reply for reply in answers if reply.kind != "notice"]) == 1


async def test_a_killed_agent_is_started_again_and_answers(stack: ComposeStack) -> None:
    (agent,) = await asyncio.to_thread(stack.agent_containers)
    await asyncio.to_thread(docker, "kill", agent["Id"])
    async with console_user(stack.endpoint) as user:
        assert NOTE in await user.asks("read the note", MEND_WITHIN_S)


async def test_an_agent_is_built_from_its_repository_by_the_hosts_engine(
    stack: ComposeStack,
) -> None:
    """Control is in a container here: its own git, another user, the engine's socket of the host."""
    remote = GitRepository(stack.home / "remotes/main.git")
    soul = {"identity/SOUL.md": "I was built."}
    remote.commit({**soul, "Dockerfile": "FROM choir-base\nRUN touch /built-here\n"})
    owner = stack.home.stat().st_uid
    await asyncio.to_thread(give_to, stack.home / "remotes", owner)
    path = stack.home / "config.json"
    config = json.loads(path.read_text())
    config["agents"]["main"]["repo"] = {"url": str(remote.path)}
    path.write_text(json.dumps(config))
    for words in (("config", "load"), ("config", "apply"), ("agent", "update", "main")):
        await asyncio.to_thread(stack.run, *words, timeout=BUILT_WITHIN_S)
    async with console_user(stack.endpoint) as user:
        assert NOTE in await user.asks("read the note", MEND_WITHIN_S)
    (agent,) = await asyncio.to_thread(stack.agent_containers)
    try:
        current = json.loads((stack.home / "images/main/current.json").read_text())
        assert agent["Image"] == current["place"]
        mounts = {mount["Destination"]: mount["RW"] for mount in agent["Mounts"]}
        assert mounts == {"/workspace": True, "/run/choir": False}
        look = ("exec", agent["Id"], "sh", "-c", "ls /built-here && cat /choir/SOUL.md")
        assert await asyncio.to_thread(docker, *look) == "/built-here\nI was built."
    finally:
        del config["agents"]["main"]["repo"]
        path.write_text(json.dumps(config))
        for words in (("config", "load"), ("config", "apply"), ("agent", "restart", "main")):
            await asyncio.to_thread(stack.run, *words, timeout=BUILT_WITHIN_S)


def give_to(top: Path, owner: int) -> None:
    """Give a repository to the owner of the home, as whom control's git looks at it."""
    for path in (top, *top.rglob("*")):
        os.chown(path, owner, owner)


async def test_memory_outlives_the_containers(stack: ComposeStack) -> None:
    """`down` keeps the volumes; a new `up` finds its database, its secrets and its home."""
    before = (stack.home / "secrets.json").read_text()
    await asyncio.to_thread(stack.compose, "down", "--timeout=30")
    assert await asyncio.to_thread(stack.agent_containers) == []
    await asyncio.to_thread(stack.compose, "up", "--wait")
    assert (stack.home / "secrets.json").read_text() == before
    async with console_user(stack.endpoint) as user:
        assert "oolong" in await user.asks("What do you recall about afternoon drinks?")


def test_up_alone_answers_the_first_hello() -> None:
    """As the guide says: up, then chat; with no .env and no home directory made before."""
    with running_containers(env={"COMPOSE_PROFILES": ""}) as stack:
        assert stack.run("chat", "-m", "hello").strip()
        assert "browser" not in stack.compose("ps", "--all", "--services").split()
        agents = json.loads(stack.run("agent", "list", "--json"))
        assert [agent["agent_id"] for agent in agents] == ["main"]
        a_command_reaches_no_service_through_the_proxy(stack)
        # what setup finds it leaves alone, and the second `up` changes no container
        ids = set(stack.compose("ps", "--quiet").split())
        stack.compose("up", "--wait")
        assert set(stack.compose("ps", "--quiet").split()) == ids
        every_line_of_the_guide_works(stack)
        a_backup_is_restored(stack)
        a_key_and_an_address_of_the_environment_choose_the_model(stack)


PROXIED = """
import urllib.error, urllib.request
for host in ('rehearsal:8080', 'control:9400', 'egress:9404', '169.254.169.254'):
    try:
        print(host, urllib.request.urlopen(f'http://{host}/livez', timeout=30).status)
    except urllib.error.HTTPError as error:
        print(host, error.code)
"""


def a_command_reaches_no_service_through_the_proxy(stack: ComposeStack) -> None:
    """Not even the model's server, which the agent itself reaches."""
    (stack.home / "workspaces" / "main" / "probe.py").write_text(PROXIED)
    call = json.dumps({"command": "python3 probe.py"})
    said = stack.run("chat", "-m", f"/tool choir.exec {call}")
    for host in ("rehearsal:8080", "egress:9404", "169.254.169.254"):
        assert f"{host} 403" in said, said
    # the proxy shares no network with control, and does not know its name
    assert "control:9400 502" in said, said
    line = next(it for it in stack.compose("logs", "egress").splitlines() if "rehearsal" in it)
    assert "choir.exec" in line and "refused" in line


def in_control(stack: ComposeStack, *words: str) -> str:
    """Run choirctl in control's container."""
    return stack.compose("exec", "-T", "control", "choirctl", *words)


def every_line_of_the_guide_works(stack: ComposeStack) -> None:
    """Docker is all that is needed: each line is given to a shell as it stands there."""
    section = (ROOT / "docs/docker.md").read_text().partition("# Docker\n\n```\n")[2]
    lines = [line for line in section.partition("```")[0].splitlines() if " exec " in line]
    assert any("chat -m hello" in line for line in lines) and len(lines) >= 3
    for line in lines:
        # without a terminal, and for this stack's name and home
        typed = line.replace("docker compose exec", f"docker compose -p {stack.project} exec -T")
        done = subprocess.run(
            ["sh", "-c", typed.replace("~/.choir.d", str(stack.home))],
            env={**os.environ, **stack.env, "CHOIR_HOME": str(stack.home)},
            cwd=ROOT,
            input="sk-of-nobody\n",
            capture_output=True,
            text=True,
            timeout=MEND_WITHIN_S,
        )
        # it asks for a bot's token, and what is given here is a key
        expected = 2 if "telegram connect" in line else 0
        assert done.returncode == expected, (line, done.stdout, done.stderr)
    owner = stack.home.stat().st_uid
    assert (stack.home / "choir.backup").stat().st_uid == owner
    checks = json.loads(in_control(stack, "doctor", "--json"))["checks"]
    assert {"ok", "warn"} >= {check["outcome"] for check in checks}, checks
    assert "openai-key" in in_control(stack, "secret", "list")
    in_control(stack, "secret", "delete", "openai-key")


def a_backup_is_restored(stack: ComposeStack) -> None:
    before = in_control(stack, "session", "list", "--json")
    backup = str(stack.home / "choir.backup")
    stack.compose("stop", "control", "memory")
    restored = stack.compose(
        *("run", "--rm", "--no-deps", "-T", "control", "choirctl"),
        *("db", "restore", backup, "--yes", "--json"),
    )
    assert json.loads(restored)["sessions"] >= 1
    stack.compose("up", "--wait")
    known = {view["session_id"] for view in json.loads(before)}
    after = {
        view["session_id"] for view in json.loads(in_control(stack, "session", "list", "--json"))
    }
    assert known & after


def is_rehearsing(stack: ComposeStack) -> bool:
    """Tell whether the rehearsal model's server runs, rather than the shell that waits for its turn."""
    return "python" in docker("top", stack.service("rehearsal")["Id"], "-eo", "pid,comm")


def a_key_and_an_address_of_the_environment_choose_the_model(stack: ComposeStack) -> None:
    """As from .env; the rehearsal model plays the server that speaks OpenAI's API."""
    refused = {**stack.env, "OPENAI_BASE_URL": "http://localhost:8080/v1"}
    done = dataclasses.replace(stack, env=refused)
    done.compose("up", "setup", check=False)
    assert "host.docker.internal" in done.compose("logs", "--no-color", "setup")
    assert is_rehearsing(stack)
    elsewhere = {"OPENAI_API_KEY": "sk-of-nobody", "OPENAI_BASE_URL": f"http://{PAGE_HOST}/v1"}
    with_other = dataclasses.replace(stack, env={**stack.env, **elsewhere})
    with_other.compose("up", "--wait", "rehearsal")
    assert not is_rehearsing(stack)
    given = {**elsewhere, "OPENAI_BASE_URL": "http://rehearsal:8080/v1"}
    with_key = dataclasses.replace(stack, env={**stack.env, **given})
    with_key.compose("up", "--wait")
    assert is_rehearsing(stack)
    assert json.loads(in_control(with_key, "status", "--json"))["model"] == "gpt-5-mini"
    assert in_control(with_key, "chat", "-m", "hello").strip()
    egress = stack.service("egress")["Id"]
    assert docker("exec", egress, "getent", "hosts", "host.docker.internal").strip()
