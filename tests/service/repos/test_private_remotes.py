"""Private repositories, opened by a git identity's secret: real HTTPS, a real sshd."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from choir_common.errors import Unavailable
from choir_common.wire.config import Config
from choir_control.approvals.proposals.commit_builder import CommitAuthor, CommitBuilder
from choir_control.configuration.secrets.store import SecretStore
from choir_control.configuration.validation import find_faults
from choir_control.images.repositories.credentials import GitCredentials
from choir_control.images.repositories.mirrors import Mirrors
from choir_control.images.repositories.source import (
    GLOBAL_OWNER,
    RepositorySource,
    configured_source,
)
from tests.service.agent.git_servers import (
    SSHD,
    HttpsGit,
    SshGit,
    authorization,
    https_git,
    make_repository,
    run,
    ssh_git,
)

TOKEN = "ghp_canaryCanary9876543210"
needs_sshd = pytest.mark.skipif(SSHD is None, reason="NOT TESTED: openssh-server is not installed")


@pytest.fixture
def place() -> Iterator[Path]:
    """Make a directory with a served repository, outside of what others can read."""
    root = Path(tempfile.mkdtemp(prefix="choir-pr-"))
    (root / "served").mkdir()
    make_repository(root / "served")
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def https(place: Path) -> Iterator[HttpsGit]:
    with https_git(place / "served", TOKEN) as server:
        yield server


@pytest.fixture
def ssh(place: Path) -> Iterator[SshGit]:
    with ssh_git(place / "served") as server:
        yield server


def a_source(url: str, *hosts: str, owner: str = "main") -> RepositorySource:
    """Return the repository of `main`, or the global one, with an identity for these hosts."""
    identity = {"name": "Dev", "email": "dev@example.org", "secret": "git", "hosts": hosts}
    agent = {"workspace": "w", "llm": "m", "dm": "d", "git_identity": "dev"}
    config = Config.model_validate(
        {
            "agents": {"main": {"repo": {"url": url}, "defaults": agent}},
            "workspaces": {},
            "git_identities": {"dev": identity},
            "global_repo": {"url": url, "git_identity": "dev"},
        },
        strict=False,
    )
    found = configured_source(config, owner)
    assert found is not None
    return found


def mirrors_at(place: Path, secrets: Mapping[str, str], trusted: Path | None = None) -> Mirrors:
    """Return mirrors that know these secrets, and that server's certificate."""
    environment = {**os.environ, "GIT_SSL_CAINFO": str(trusted)} if trusted else os.environ
    keys = GitCredentials(SecretStore(secrets), place / "home/known_hosts")
    return Mirrors(place / "home", environment, keys)


def know(place: Path, server: SshGit) -> None:
    """Write the server's host key where the operator would."""
    (place / "home").mkdir(exist_ok=True)
    kind, key, *_ = (server.root / "host.pub").read_text().split()
    (place / "home/known_hosts").write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")


def holding(place: Path, secret: str) -> list[str]:
    """Return the files of the home that hold a secret."""
    return [
        str(path)
        for path in (place / "home").rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize("owner", ["main", GLOBAL_OWNER])
async def test_a_token_opens_a_repository_over_https_and_is_seen_nowhere(
    place: Path, https: HttpsGit, owner: str
) -> None:
    (https.root / "note").touch()
    source = a_source(https.url("localhost"), f"localhost:{https.port}", owner=owner)
    mirrors = mirrors_at(place, {"git": TOKEN}, https.certificate)
    fetched = await mirrors.fetch(source)
    assert fetched.warning is None
    assert (await mirrors.write_files(fetched, place / "out")).read("README") == b"hello\n"
    assert https.was_shown_the_token()
    seen = (https.root / "processes").read_bytes()
    assert b"remote-https" in seen  # git was at it
    assert TOKEN.encode() not in seen and authorization(TOKEN).encode() not in seen
    assert holding(place, TOKEN) == []


async def test_no_other_host_is_shown_the_token(place: Path, https: HttpsGit) -> None:
    mirrors = mirrors_at(place, {"git": TOKEN}, https.certificate)
    # the very same server under a name that the identity does not list
    for url, host in (
        (https.url("127.0.0.1"), f"localhost:{https.port}"),
        (https.url("localhost"), "localhost"),
    ):
        with pytest.raises(Unavailable, match="is not for .*add it to `hosts`"):
            await mirrors.fetch(a_source(url, host))
    assert set(https.seen()) == {""}


async def test_a_redirect_to_another_host_does_not_take_the_token_along(
    place: Path, https: HttpsGit
) -> None:
    (place / "thief").mkdir()
    with https_git(place / "thief", "none") as thief:
        (https.root / "redirect").write_text(thief.url("127.0.0.1"))
        both = place / "both.pem"
        both.write_text(https.certificate.read_text() + thief.certificate.read_text())
        mirrors = mirrors_at(place, {"git": TOKEN}, both)
        with pytest.raises(Unavailable):
            await mirrors.fetch(a_source(https.url("localhost"), f"localhost:{https.port}"))
        assert set(thief.seen()) == {""}  # it was asked, and shown nothing


async def test_what_is_missing_or_wrong_is_said(place: Path, https: HttpsGit) -> None:
    source = a_source(https.url("localhost"), f"localhost:{https.port}")
    for value, words in (
        ({}, "choirctl secret set git"),
        ({"git": "-----BEGIN X\nPRIVATE KEY-----"}, "is not a token"),
        ({"git": "wrong"}, "Authentication failed"),
    ):
        with pytest.raises(Unavailable, match=words) as failed:
            await mirrors_at(place, value, https.certificate).fetch(source)
        assert "wrong" not in failed.value.message


async def test_a_commit_is_pushed_with_the_agents_own_token(place: Path, https: HttpsGit) -> None:
    source = a_source(https.url("localhost"), f"localhost:{https.port}")
    environment = {**os.environ, "GIT_SSL_CAINFO": str(https.certificate)}
    bench = CommitBuilder(
        place / "home/bench",
        source,
        environment=environment,
        credentials=GitCredentials(SecretStore({"git": TOKEN})),
    )
    base = await bench.fetch("main")
    tree = await bench.write_tree_with(base, {"new": "file\n"})
    commit = await bench.commit(tree, (base,), "words", CommitAuthor("Dev", "dev@example.org", 1))
    await bench.push(commit, "main", base)
    assert run("git", f"--git-dir={https.root}/repo.git", "rev-parse", "main").strip() == commit
    assert holding(place, TOKEN) == []


@needs_sshd
async def test_a_key_opens_a_repository_over_ssh_and_is_seen_nowhere(
    place: Path, ssh: SshGit
) -> None:
    note = place / "note.sh"
    note.write_text(
        f"#!/bin/sh\ncat /proc/[0-9]*/cmdline /proc/[0-9]*/environ > {place}/processes 2>/dev/null\n"
        'exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    note.chmod(0o755)
    authorized = ssh.root / "authorized"
    authorized.write_text(f'command="{note}" {authorized.read_text()}')
    know(place, ssh)
    mirrors = mirrors_at(place, {"git": ssh.private_key})
    fetched = await mirrors.fetch(a_source(ssh.url("127.0.0.1"), "127.0.0.1"))
    assert fetched.warning is None
    assert (await mirrors.write_files(fetched, place / "out")).read("README") == b"hello\n"
    seen = (place / "processes").read_bytes()
    assert b"IdentityFile=/proc/" in seen  # ssh was at it
    body = ssh.private_key.splitlines()[1]
    assert body.encode() not in seen
    assert holding(place, body) == []


@needs_sshd
async def test_an_unknown_host_key_is_refused_with_what_to_do(place: Path, ssh: SshGit) -> None:
    mirrors = mirrors_at(place, {"git": ssh.private_key})
    source = a_source(ssh.url("127.0.0.1"), f"127.0.0.1:{ssh.port}")
    with pytest.raises(Unavailable, match="ssh-keyscan HOST >> .*known_hosts"):
        await mirrors.fetch(source)
    assert ssh.offered() == 0
    know(place, ssh)
    assert (await mirrors.fetch(source)).warning is None


@needs_sshd
async def test_a_key_is_not_offered_to_another_host_and_a_token_is_no_key(
    place: Path, ssh: SshGit
) -> None:
    know(place, ssh)
    mirrors = mirrors_at(place, {"git": ssh.private_key})
    with pytest.raises(Unavailable, match="is not for"):
        await mirrors.fetch(a_source(ssh.url("127.0.0.1"), "github.com"))
    with pytest.raises(Unavailable, match="is not a private key"):
        await mirrors_at(place, {"git": TOKEN}).fetch(a_source(ssh.url("127.0.0.1"), "127.0.0.1"))


def test_an_identity_that_is_not_there_is_a_fault() -> None:
    defaults = {"workspace": "w", "llm": "m", "dm": "d"}
    config = Config.model_validate(
        {
            "agents": {
                "main": {"repo": {"url": "/x", "git_identity": "who"}, "defaults": defaults},
                "global": {"defaults": defaults},
            },
            "workspaces": {},
            "global_repo": {"url": "/x", "git_identity": "whom"},
        },
        strict=False,
    )
    said = "\n".join(find_faults(config))
    assert "agents.main.repo.git_identity: there is no 'who'" in said
    assert "global_repo.git_identity: there is no 'whom'" in said
    assert "agents.global: this name is reserved" in said
