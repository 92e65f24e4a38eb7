"""git with the agent's identity: real git, a real HTTPS server, a real sshd."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from choir_agent.credentials.git_access import GitAccess
from choir_agent.credentials.ssh_agent import SshAgent
from choir_agent.settings import CurrentSettings
from choir_agent.tools.builtin.shell import ShellTool
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.tool import CallContext, ToolFailed
from choir_common.wire.config import AgentSettings, Budgets, GitIdentityConfig, ModelConfig
from tests.service.agent.git_servers import SSHD, HttpsGit, https_git, make_repository, ssh_git

TOKEN = "ghp_canaryCanary0123456789"


@pytest.fixture
def place() -> Iterator[Path]:
    """Make a directory with a short path: sockets lie in it."""
    root = Path(tempfile.mkdtemp(prefix="choir-g-"))
    (root / "ws").mkdir()
    (root / "tmp").mkdir()
    (root / "served").mkdir()
    make_repository(root / "served")
    yield root
    shutil.rmtree(root, ignore_errors=True)


def current(secret: str | None, *hosts: str) -> CurrentSettings:
    """Return settings with a git identity for these hosts, or none."""
    identity = GitIdentityConfig(
        name="Dev", email="dev@example.org", secret="git", hosts=hosts or ("localhost",)
    )
    settings = AgentSettings(
        model_name="default",
        model=ModelConfig(model="m", endpoint="http://x"),
        budgets=Budgets(),
        heartbeat_interval_ms=1000,
        rate_limit_retry_ms=1000,
        event_window=50,
        git_identity=None if secret is None else identity,
    )
    return CurrentSettings(settings, {"git": secret} if secret else {})


class Place:
    """An agent's shell with git set up."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git = GitAccess(str(root / "tmp"), root / "ws")
        self.shell = ShellTool(ProgramRunner(root / "ws", str(root / "tmp"), git=self.git))

    async def run(self, command: str) -> tuple[int, str]:
        """Run a command as the model would; return its exit code and what it printed."""
        done = await self.shell.run(CallContext("call_1", "edge"), {"command": command})
        code = done.output["exit_code"]
        assert isinstance(code, int)
        return code, f"{done.output['stdout']}{done.output['stderr']}"

    def holds(self, secret: str) -> list[str]:
        """Return the files of workspace and temporary directory that hold a secret."""
        found = []
        for top in ("ws", "tmp"):
            for path in (self.root / top).rglob("*"):
                if (
                    path.is_file()
                    and not path.is_symlink()
                    and secret.encode() in path.read_bytes()
                ):
                    found.append(str(path))
        return found


@contextlib.asynccontextmanager
async def agent_at(root: Path) -> AsyncIterator[Place]:
    """Set up an agent's shell and git, and end both."""
    agent = Place(root)
    try:
        yield agent
    finally:
        await agent.git.close()
    assert list((root / "tmp").iterdir()) == []


def trust(root: Path, server: HttpsGit) -> None:
    """Let the user's own git configuration trust the test's certificate."""
    (root / "ws" / ".gitconfig").write_text(f"[http]\n\tsslCAInfo = {server.certificate}\n")


CHANGE = "cd repo && echo more >> README && git commit -qam second && git push -q origin main"


async def test_clone_and_push_over_https_work_for_an_allowed_host(place: Path) -> None:
    with https_git(place / "served", TOKEN) as server:
        trust(place, server)
        async with agent_at(place) as agent:
            await agent.git.apply_settings(current(TOKEN, f"localhost:{server.port}"))
            code, said = await agent.run(f"git clone -q {server.url('localhost')} repo && {CHANGE}")
            assert code == 0, said
            _, author = await agent.run(
                f"git --git-dir={place}/served/repo.git log -1 --format=%an/%ae"
            )
            assert author.strip() == "Dev/dev@example.org"
            assert agent.holds(TOKEN) == []
            assert TOKEN not in (await agent.run("env; cat /proc/*/environ /proc/*/cmdline"))[1]
        assert server.was_shown_the_token()


async def test_another_host_is_sent_no_token(place: Path) -> None:
    with https_git(place / "served", TOKEN) as trap:
        trust(place, trap)
        async with agent_at(place) as agent:
            await agent.git.apply_settings(current(TOKEN, f"localhost:{trap.port}"))
            # the very same server under another name, and under another port's name
            code, said = await agent.run(f"git clone {trap.url('127.0.0.1')} repo")
            assert code != 0
            assert "is not for the host" in said
            await agent.git.apply_settings(current(TOKEN, "localhost"))
            assert (await agent.run(f"git clone {trap.url('localhost')} repo"))[0] != 0
        assert set(trap.seen()) == {""}


async def test_a_helper_of_the_repository_does_not_get_the_token(place: Path) -> None:
    with https_git(place / "served", TOKEN) as server:
        trust(place, server)
        async with agent_at(place) as agent:
            await agent.git.apply_settings(current(TOKEN, f"localhost:{server.port}"))
            await agent.run(f"git clone -q {server.url('localhost')} repo")
            await agent.run("cd repo && git config credential.helper store && git pull -q")
            assert agent.holds(TOKEN) == []


async def test_a_new_token_takes_the_next_question_and_none_is_left_after_it(place: Path) -> None:
    with https_git(place / "served", TOKEN) as server:
        trust(place, server)
        async with agent_at(place) as agent:
            host = f"localhost:{server.port}"
            clone = f"rm -rf repo; git clone -q {server.url('localhost')} repo"
            await agent.git.apply_settings(current("ghp_revoked000", host))
            assert (await agent.run(clone))[0] != 0
            await agent.git.apply_settings(current(TOKEN, host))
            assert (await agent.run(clone))[0] == 0
            await agent.git.apply_settings(current(None))
            assert (await agent.run(clone))[0] != 0
            assert agent.git.environment() == {}


async def test_a_process_that_is_not_ours_gets_nothing(place: Path) -> None:
    async with agent_at(place) as agent:
        await agent.git.apply_settings(current(TOKEN, "github.com"))
        config = Path(agent.git.environment()["GIT_CONFIG_GLOBAL"])
        door = config.parent / "door"
        assert (door.stat().st_mode & 0o777, config.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        ask = "printf 'protocol=https\\nhost=github.com\\n' | git credential fill"
        assert TOKEN in (await agent.run(ask))[1]


@pytest.mark.skipif(SSHD is None, reason="NO sshd HERE: git over ssh is not tested")
async def test_a_private_key_works_for_an_allowed_host_and_is_offered_to_no_other(
    place: Path,
) -> None:
    with ssh_git(place / "served") as server:
        async with agent_at(place) as agent:
            await agent.git.apply_settings(current(server.private_key, "localhost"))
            code, said = await agent.run(f"git clone -q {server.url('localhost')} repo && {CHANGE}")
            assert code == 0, said
            offered = server.offered()
            assert offered > 0
            code, said = await agent.run(f"git clone -q {server.url('127.0.0.1')} other")
            assert code != 0
            assert "Permission denied" in said
            # nor by ssh itself, outside of git
            await agent.run(f"ssh -p {server.port} -o BatchMode=yes 127.0.0.1 true")
            assert server.offered() == offered
            middle = server.private_key.splitlines()[3]
            assert agent.holds(middle) == []
            assert middle not in (await agent.run("env; cat /proc/*/environ /proc/*/cmdline"))[1]
            await agent.git.apply_settings(current(None))
            # other tests may have an ssh-agent of their own at this time
            children = psutil.Process().children()
            assert "ssh-agent" not in [child.name() for child in children]


@pytest.mark.skipif(SSHD is None, reason="NO sshd HERE: git over ssh is not tested")
async def test_a_key_that_is_none_is_said_and_breaks_nothing(place: Path) -> None:
    async with agent_at(place) as agent:
        broken = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"
        await agent.git.apply_settings(current(broken, "localhost"))
        assert (await agent.run("git config user.name"))[1].strip() == "Dev"
        with pytest.raises(ToolFailed):
            await agent.shell.run(CallContext("c", "edge"), {"command": "a\0b"})


async def test_a_cancelled_start_of_the_ssh_agent_leaves_no_process(place: Path) -> None:
    before = {*psutil.Process().children()}
    opening = asyncio.create_task(SshAgent(place / "ssh").open("a key"))
    async with asyncio.timeout(60):
        while not (place / "ssh").exists():
            await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert {*psutil.Process().children()} == before
