"""Repositories made to reach us: nothing of theirs runs, and nothing is written outside.

Each attack has a trap: a file that appears if the attack works.
"""

import os
from pathlib import Path

import pytest

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.wire.config import RepoConfig
from choir_control.images.repositories.git import Git
from choir_control.images.repositories.mirrors import Mirrors
from choir_control.images.repositories.source import RepositorySource, parse_source
from choir_control.images.repositories.tree import MAX_FILE_BYTES, find_path_fault, parse_listing
from tests.support.repositories import GitRepository


class Stage:
    """A hostile remote, our mirrors, and the trap."""

    def __init__(self, top: Path) -> None:
        self.remote = GitRepository(top / "remote.git")
        self.trap = top / "TRAP"
        self.out = top / "home/out/tree"
        (top / "user").mkdir()
        # the user's own configuration would run a command at many occasions
        runs = f"touch {self.trap};"
        config = f"[core]\n hooksPath = {top}/hooks\n fsmonitor = {runs}\n sshCommand = {runs}\n"
        (top / "user/.gitconfig").write_text(config)
        (top / "hooks").mkdir()
        self.plant(top / "hooks")
        environment = {
            **os.environ,
            "HOME": str(top / "user"),
            "GIT_SSH_COMMAND": f"touch {self.trap};",
        }
        self.mirrors = Mirrors(top / "home", environment)
        self.git = Git(environment)

    def plant(self, hooks: Path) -> None:
        """Put a trap into every hook there is."""
        for name in (
            "post-checkout", "post-merge", "reference-transaction", "pre-receive", "update",
            "post-update", "post-receive", "pre-auto-gc", "fsmonitor-watchman", "post-index-change",
        ):  # fmt: skip
            (hooks / name).write_text(f"#!/bin/sh\ntouch {self.trap}\n")
            (hooks / name).chmod(0o755)

    @property
    def source(self) -> RepositorySource:
        """What config.json names."""
        found = parse_source("main", RepoConfig(url=f"file://{self.remote.path}"))
        assert found is not None
        return found

    async def take(self) -> None:
        """Do all that is ever done with a repository."""
        await self.mirrors.write_files(await self.mirrors.fetch(self.source), self.out)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_hooks_of_the_remote_and_of_the_user_do_not_run(stage: Stage) -> None:
    stage.plant(stage.remote.path / "hooks")
    stage.remote.commit({"a": "1"})
    await stage.take()
    assert (stage.out / "a").read_text() == "1"
    stage.plant(stage.mirrors.directory_of("main"))
    (stage.mirrors.directory_of("main") / "hooks").mkdir()
    stage.plant(stage.mirrors.directory_of("main") / "hooks")
    stage.remote.commit({"b": "1"})
    assert not (await stage.mirrors.fetch(stage.source)).is_stale
    assert not stage.trap.exists()


async def test_configuration_of_the_remote_runs_nothing(stage: Stage) -> None:
    for name in (
        "uploadpack.packObjectsHook", "core.fsmonitor", "core.sshCommand", "core.gitProxy",
        "credential.helper", "core.pager", "diff.external", "core.alternateRefsCommand",
    ):  # fmt: skip
        stage.remote.git("config", name, f"touch {stage.trap};")
    stage.remote.commit({"a": "1"})
    await stage.take()
    assert not stage.trap.exists()


async def test_filters_and_attributes_have_no_say_in_what_is_written(stage: Stage) -> None:
    for command in ("smudge", "clean", "process"):
        stage.remote.git("config", f"filter.evil.{command}", f"touch {stage.trap}")
    stage.remote.commit(
        {
            ".gitattributes": "* filter=evil ident text eol=crlf export-subst\nhidden export-ignore\n",
            "a": "$Id$ $Format:%H$\n",
            "hidden": "seen",
            "big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        }
    )
    await stage.take()
    assert (stage.out / "a").read_bytes() == b"$Id$ $Format:%H$\n"
    assert (stage.out / "hidden").read_text() == "seen"
    assert not stage.trap.exists()


async def test_a_symbolic_link_is_refused_and_nothing_is_written_through_it(stage: Stage) -> None:
    link = stage.remote.blob(str(stage.trap.parent).encode())
    inside = stage.remote.blob(b"x")
    stage.remote.commit_index(f"120000 {link}\ttools\n100644 {inside}\tother\n".encode())
    with pytest.raises(InvalidRequest, match="symbolic link"):
        await stage.take()
    assert not stage.trap.exists() and not stage.out.exists()


async def test_a_link_and_a_folder_of_one_name_cannot_be_combined(stage: Stage) -> None:
    link = stage.remote.blob(str(stage.trap.parent).encode())
    folder = stage.remote.raw_tree(("100644", "TRAP", stage.remote.blob(b"x")))
    stage.remote.commit_tree(stage.remote.raw_tree(("120000", "a", link), ("40000", "a", folder)))
    with pytest.raises(ChoirError):
        await stage.take()
    assert not stage.trap.exists()


async def test_a_submodule_is_refused_and_not_fetched(stage: Stage) -> None:
    modules = stage.remote.blob(
        f'[submodule "m"]\n path = m\n url = ext::sh -c touch% {stage.trap}\n'.encode()
    )
    other = stage.remote.commit({"x": "1"})
    stage.remote.commit_index(f"100644 {modules}\t.gitmodules\n160000 {other}\tm\n".encode())
    with pytest.raises(ChoirError):
        await stage.take()
    assert not stage.trap.exists() and not stage.out.exists()


@pytest.mark.parametrize("name", ["..", ".", ".git", ".GIT", "a/../../../TRAP", ".git "])
async def test_paths_that_lead_out_are_refused(stage: Stage, name: str) -> None:
    inner = stage.remote.raw_tree(("100644", "TRAP", stage.remote.blob(b"x")))
    stage.remote.commit_tree(stage.remote.raw_tree(("40000", name, inner)))
    with pytest.raises(ChoirError):
        await stage.take()
    assert not stage.trap.exists() and not stage.out.exists()


@pytest.mark.parametrize(
    "path", ["../a", "a/../b", "/etc/x", "a//b", "./a", ".git/config", "a/.Git/x", "a\\b", "a\nb", "x" * 500]
)  # fmt: skip
def test_our_own_check_refuses_them_whatever_git_lets_through(path: str) -> None:
    assert find_path_fault(path)
    with pytest.raises(InvalidRequest):
        parse_listing(f"100644 blob {'0' * 40}       1\t{path}".encode() + b"\0", "it")


async def test_a_huge_file_is_refused_before_it_is_written(stage: Stage) -> None:
    stage.remote.commit({"big": bytes(MAX_FILE_BYTES + 1)})
    with pytest.raises(InvalidRequest, match="MiB"):
        await stage.take()
    assert not stage.out.exists()


def test_too_many_files_and_too_many_bytes_are_refused() -> None:
    line = b"100644 blob " + b"0" * 40 + b" %d\tf%d\0"
    with pytest.raises(InvalidRequest, match="files"):
        parse_listing(b"".join(line % (1, n) for n in range(20_001)), "it")
    with pytest.raises(InvalidRequest, match="MiB"):
        parse_listing(b"".join(line % (60 << 20, n) for n in range(9)), "it")


def test_names_that_differ_in_case_only_are_refused() -> None:
    line = b"100644 blob " + b"0" * 40 + b" 1\t%s\0"
    with pytest.raises(InvalidRequest):
        parse_listing(line % b"tools/a" + line % b"TOOLS/a", "it")


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/TRAP",
        "ext::touch",
        "fd::17/foo",
        "file://host/path",
        "http://example.org/plain.git",
        "git://example.org/a.git",
        "ssh://-oProxyCommand=touch%20x/a",
        "-oProxyCommand=x:y",
        "--upload-pack=touch x",
        "https://token@example.org/a.git",
        "https://user:secret@example.org/a.git",
        "ssh://user:secret@example.org/a.git",
        "host:-oProxyCommand",
        "a\nb:c",
        "relative/path",
        "https://example.org:bad/a",
        "https:///a",
    ],
)
def test_an_address_that_git_would_take_for_more_than_one_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_source("main", RepoConfig(url=url))
    assert "secret" not in caught.value.message.split("must not contain secrets")[0]


@pytest.mark.parametrize(
    "ref", ["--upload-pack=x", "-x", "a..b", "a b", "+main", "main:x", "", "a*", "^x"]
)
def test_a_ref_that_is_more_than_a_name_is_refused(ref: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_source("main", RepoConfig(url="https://example.org/a.git", ref=ref or "/"))


@pytest.mark.parametrize(
    "url", ["git@github.com:org/a.git", "https://github.com/org/a.git", "ssh://git@host:22/a", "/srv/a.git", "file:///srv/a"]
)  # fmt: skip
def test_the_usual_addresses_are_taken(url: str) -> None:
    found = parse_source("main", RepoConfig(url=url))
    assert found is not None and found.url == url


async def test_git_may_use_no_transport_but_that_of_the_address(stage: Stage) -> None:
    stage.remote.commit({"a": "1"})
    await stage.take()
    mirror = stage.mirrors.directory_of("main")
    for url, configured in (
        (f"ext::sh -c touch% {stage.trap}", "https://example.org/x"),
        (f"file://{stage.remote.path}", "https://example.org/x"),
        (f"file://{stage.remote.path}", ""),
    ):
        remote = parse_source("main", RepoConfig(url=configured))
        with pytest.raises(ChoirError, match="not allowed"):
            await stage.git.run(mirror, "fetch", url, "main", remote=remote)
    assert not stage.trap.exists()
