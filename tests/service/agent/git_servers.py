"""Real git servers for a test: git's own http-backend behind HTTPS with a password, and an sshd."""

import base64
import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.mail import make_certificate
from tests.support.ports import free_port

SEEN = "seen.log"
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")


def run(*argv: str | Path, **environment: str) -> str:
    """Run a program to its end and return what it printed."""
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", **environment}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def make_repository(root: Path) -> Path:
    """Make a bare repository with one commit, which takes pushes."""
    bare, work = root / "repo.git", root / "seed"
    run("git", "init", "-q", "-b", "main", "--bare", bare)
    run("git", "-C", bare, "config", "http.receivepack", "true")
    run("git", "clone", "-q", bare, work)
    (work / "README").write_text("hello\n")
    run("git", "-C", work, "add", "README")
    who = ("-c", "user.name=seed", "-c", "user.email=seed@example.org")
    run("git", "-C", work, *who, "commit", "-q", "-m", "first")
    run("git", "-C", work, "push", "-q", "origin", "HEAD:main")
    return bare


@dataclass(frozen=True)
class HttpsGit:
    """An HTTPS server with a repository that wants a password."""

    root: Path
    token: str
    certificate: Path
    port: int
    pid: int

    def url(self, host: str) -> str:
        """Return the repository's address under one of the server's names."""
        return f"https://{host}:{self.port}/repo.git"

    def seen(self) -> list[str]:
        """Return the Authorization header of every request, empty where there was none."""
        return (self.root / SEEN).read_text().splitlines()

    def was_shown_the_token(self) -> bool:
        """Tell whether a request held it."""
        return authorization(self.token) in self.seen()


def authorization(token: str) -> str:
    """Return the header that git sends for a token."""
    return "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


@contextlib.contextmanager
def https_git(root: Path, token: str = "") -> Iterator[HttpsGit]:
    """Serve the repositories below `root` in a process of its own while the block runs.

    Without a token everybody may read and write.
    """
    made = make_certificate(root)
    certificate, key = made.cert, made.key
    (root / SEEN).touch()
    argv = [
        sys.executable,
        "-m",
        "tests.service.agent.git_https",
        *map(str, (root, certificate, key)),
    ]
    # on standard input, because a test looks for the token in every command line
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(f"{authorization(token) if token else ''}\n")
        server.stdin.flush()
        port = int(server.stdout.readline())
        try:
            yield HttpsGit(root, token, certificate, port, server.pid)
        finally:
            server.kill()


@dataclass(frozen=True)
class SshGit:
    """An sshd that takes one key."""

    root: Path
    port: int
    private_key: str
    log: Path
    pid: int

    def url(self, host: str) -> str:
        """Return the repository's address under one of the server's names."""
        return f"ssh://{getpass.getuser()}@{host}:{self.port}{self.root}/repo.git"

    def offered(self) -> int:
        """Return how often somebody has shown it a public key."""
        return self.log.read_text().count("method publickey")


@contextlib.contextmanager
def ssh_git(root: Path) -> Iterator[SshGit]:
    """Run an sshd for the repositories below `root` while the block runs."""
    assert SSHD is not None
    for name in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", root / name)
    private_key = (root / "user").read_text()
    (root / "user").unlink()
    (root / "user.pub").rename(root / "authorized")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port, log, config = free_port(), root / "sshd.log", root / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {root}/host\nAuthorizedKeysFile {root}/authorized\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\n"
        "LogLevel DEBUG1\n"
    )
    server = subprocess.Popen([SSHD, "-D", "-f", config, "-E", log])
    try:
        _wait_for(port, server)
        yield SshGit(root, port, private_key, log, server.pid)
    finally:
        server.terminate()
        server.wait(timeout=60)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert server.poll() is None, "sshd did not start"
        time.sleep(0.01)
    raise TimeoutError("sshd does not listen")
