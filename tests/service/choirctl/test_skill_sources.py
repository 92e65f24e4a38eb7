"""`choirctl skill add` from git over real HTTPS and a real sshd."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from choir_common.skill_folders.folder import read_skill_folder
from tests.service.agent.git_servers import SSHD, https_git, make_repository, run, ssh_git
from tests.support.preloaded_choirctl import run_choirctl
from tests.support.skill_folders import write_skill

SKILL = "recipe-scaling"
CONFIG = {
    "workspaces": {"w": {"path": "/tmp/w"}},
    "models": {"m": {"model": "x", "endpoint": "http://127.0.0.1:1/v1", "provider": "openai"}},
    "dms": {"d": {"gateway": "console", "user_id": "u"}},
    "agents": {"main": {"defaults": {"workspace": "w", "llm": "m", "dm": "d"}}},
}


class Source:
    """A served repository with a skill, and a state directory to add it to."""

    def __init__(self, top: Path) -> None:
        self.top, self.served, self.home = top, top / "served", top / "home"
        self.served.mkdir()
        self.home.mkdir()
        (self.home / "config.json").write_text(json.dumps(CONFIG))
        make_repository(self.served)
        work = self.served / "seed"
        self.sha256 = read_skill_folder(write_skill(work / "skills", 4)).sha256
        run("git", "-C", work, "add", "-A")
        run("git", "-C", work, "-c", "user.name=s", "-c", "user.email=s@b", "commit", "-qm", "x")
        run("git", "-C", work, "push", "-q", "origin", "HEAD:main")

    def add(self, url: str, **environment: str) -> tuple[int, str]:
        """Add the skill; return the exit code and the message."""
        words = ("skill", "add", url, "--path", f"skills/{SKILL}", "--sha256", self.sha256)
        done = run_choirctl(*words, home=self.home, env=environment)
        return done.returncode, " ".join(done.stderr.split())

    def added(self) -> str:
        """Return the hash of the files that were written."""
        return read_skill_folder(self.home / "agents/main/skills" / SKILL).sha256


@pytest.fixture
def source() -> Iterator[Source]:
    # outside of pytest's directory, whose parents only their owner can enter
    top = Path(tempfile.mkdtemp(prefix="choir-ss-"))
    yield Source(top)
    shutil.rmtree(top, ignore_errors=True)


def test_a_skill_comes_over_https_from_a_server_that_is_trusted(source: Source) -> None:
    with https_git(source.served) as server:
        url = server.url("localhost")
        code, message = source.add(url)
        assert code != 0 and "certificate" in message.casefold()
        assert not (source.home / "agents").exists()
        assert source.add(url, GIT_SSL_CAINFO=str(server.certificate))[0] == 0
    assert source.added() == source.sha256
    assert set(server.seen()) == {""}, "no password was sent"


@pytest.mark.skipif(SSHD is None, reason="NOT TESTED: openssh-server is not installed")
def test_a_skill_comes_over_ssh_with_the_users_own_key(source: Source) -> None:
    with ssh_git(source.served) as server:
        key, known = source.top / "key", source.top / "known"
        key.write_text(server.private_key)
        key.chmod(0o600)
        ssh = f"ssh -F none -i {key} -o IdentitiesOnly=yes -o UserKnownHostsFile={known}"
        url = server.url("127.0.0.1")
        code, message = source.add(url, GIT_SSH_COMMAND=ssh)
        assert code != 0 and "Host key verification failed" in message
        kind, public, *_ = (server.root / "host.pub").read_text().split()
        known.write_text(f"[127.0.0.1]:{server.port} {kind} {public}\n")
        code, message = source.add(url, GIT_SSH_COMMAND=ssh)
        assert code == 0, message
    assert source.added() == source.sha256
