"""Traps in a workspace: what an agent leaves there runs no command of the owner's git."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from choir_control.workspaces.git_settings import GitSetting, executes
from choir_control.workspaces.traps import DISABLED, TrapReport, search_traps

WITHIN_S = 120.0
ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_PAGER": "",
    "GIT_EDITOR": "true",
}
EXECUTING = """
core.fsmonitor core.sshcommand core.hookspath core.pager core.editor core.askpass core.gitproxy
core.alternaterefscommand core.attributesfile core.excludesfile sequence.editor alias.st
pager.status include.path includeif.gitdir:/.path credential.helper credential.https://x.helper
gpg.program gpg.ssh.program gpg.ssh.defaultkeycommand filter.x.clean filter.x.smudge
filter.x.process diff.external diff.x.command diff.x.textconv merge.x.driver mergetool.x.cmd
difftool.x.cmd trailer.x.command trailer.x.cmd interactive.difffilter remote.x.uploadpack
remote.x.receivepack remote.x.vcs remote.x.proxy branch.x.mergeoptions submodule.x.update
uploadpack.packobjectshook url.x.insteadof http.proxy http.sslverify browser.x.cmd man.x.cmd
web.browser help.browser tar.x.command sendemail.smtpserver protocol.ext.allow gc.recentobjectshook
bundle.x.uri fetch.bundleuri pull.twohead hook.x.command a.setting.of.tomorrow
"""
HARMLESS = {
    "user.name": "Ada",
    "user.email": "ada@example.org",
    "remote.origin.url": "git@example.org:a/b.git",
    "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*",
    "branch.main.remote": "origin",
    "branch.main.merge": "refs/heads/main",
    "submodule.lib.url": "https://example.org/lib.git",
    "pull.rebase": "true",
    "core.autocrlf": "input",
}


def git(folder: Path, *words: str, check: bool = True) -> str:
    """Run git as the owner does."""
    names = ("-c", "user.name=o", "-c", "user.email=o@example.org")
    done = subprocess.run(
        ["git", *names, *words], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository in a workspace, with one commit."""
    root = tmp_path / "workspace" / "repo"
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text("a\n")
    git(root, "add", "a.txt")
    git(root, "commit", "-qm", "one")
    return root


def search(repository: Path, *, disable: bool = True) -> TrapReport:
    return search_traps(repository.parent, disable=disable, within_s=WITHIN_S, cancelled=Event())


def command(repository: Path) -> str:
    """Return a command that leaves a mark outside of the workspace."""
    return f"touch {repository.parent.parent}/RAN; cat"


def has_run(repository: Path) -> bool:
    return (repository.parent.parent / "RAN").exists()


def use(repository: Path) -> None:
    """Do what an owner does to look at a repository, and a commit."""
    (repository / "a.txt").write_text("b\n")
    for words in (("status",), ("diff",), ("log", "-p"), ("commit", "-qam", "two"), ("gc", "-q")):
        git(repository, *words, check=False)


def add_hook(hooks: Path, repository: Path, name: str = "post-index-change") -> None:
    hooks.mkdir(parents=True, exist_ok=True)
    hook = hooks / name
    hook.write_text(f"#!/bin/sh\n{command(repository)} </dev/null\n")
    hook.chmod(0o755)


def set_fsmonitor(repository: Path) -> None:
    git(repository, "config", "core.fsmonitor", f"{command(repository)} </dev/null #")


def set_hook(repository: Path) -> None:
    add_hook(repository / ".git/hooks", repository)


def set_hooks_path(repository: Path) -> None:
    add_hook(repository / "tools", repository)
    git(repository, "config", "core.hooksPath", "tools")


def link_hooks(repository: Path) -> None:
    add_hook(repository / "tools", repository)
    shutil.rmtree(repository / ".git/hooks")
    (repository / ".git/hooks").symlink_to("../tools")


def set_filter(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.txt filter=x\n")
    git(repository, "config", "filter.x.clean", command(repository))


def set_textconv(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.txt diff=x\n")
    git(repository, "config", "diff.x.textconv", f"sh -c '{command(repository)} $0'")


def include_file(repository: Path) -> None:
    (repository / "more").write_text(f'[core]\nfsmonitor = "{command(repository)} </dev/null #"\n')
    git(repository, "config", "include.path", "../more")


def link_config(repository: Path) -> None:
    set_fsmonitor(repository)
    (repository / ".git/config").rename(repository / "notes")
    (repository / ".git/config").symlink_to("../notes")


def set_worktree_config(repository: Path) -> None:
    git(repository, "config", "extensions.worktreeConfig", "true")
    line = f'[core]\nfsmonitor = "{command(repository)} </dev/null #"\n'
    (repository / ".git/config.worktree").write_text(line)


def move_git_directory(repository: Path) -> None:
    set_fsmonitor(repository)
    (repository / ".git").rename(repository / "data")
    (repository / ".git").write_text("gitdir: data\n")


def divide_git_directory(repository: Path) -> None:
    """Keep objects, refs and configuration in a directory without HEAD."""
    set_fsmonitor(repository)
    shared = repository / "shared"
    shared.mkdir()
    for name in ("objects", "refs", "config"):
        (repository / ".git" / name).rename(shared / name)
    (repository / ".git/commondir").write_text("../shared\n")


def write_in_capitals(repository: Path) -> None:
    with (repository / ".git/config").open("a") as file:
        file.write(f'[CORE] FSMonitor = "{command(repository)} </dev/null #"\n')


TRAPS = (
    set_fsmonitor,
    set_hook,
    set_hooks_path,
    link_hooks,
    set_filter,
    set_textconv,
    include_file,
    link_config,
    set_worktree_config,
    move_git_directory,
    divide_git_directory,
    write_in_capitals,
)


@pytest.mark.parametrize("lay", TRAPS)
def test_git_runs_a_trap_of_an_agent_before_the_search_and_not_after_it(
    repository: Path, tmp_path: Path, lay: Callable[[Path], None]
) -> None:
    lay(repository)
    copy = tmp_path / "copy"
    shutil.copytree(repository, copy, symlinks=True)
    report = search(repository)
    assert report.changes and report.disabled and report.is_complete
    use(repository)
    assert not has_run(repository)
    assert git(repository, "rev-list", "--count", "HEAD") == "2\n", "the repository still works"
    assert search(repository).changes == ()
    use(copy)
    assert has_run(repository), "the trap works where nothing is disabled"


@pytest.mark.parametrize("name", EXECUTING.split())
def test_a_setting_that_may_execute_or_is_unknown_is_removed(name: str) -> None:
    assert executes(GitSetting(name, "x"), 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("remote.x.url", "ext::sh -c id"),
        ("remote.x.pushurl", "ext::sh -c id"),
        ("branch.x.remote", "ext::sh -c id"),
        ("submodule.x.url", "ext::sh -c id"),
        ("core.worktree", "/home/ada"),
        ("core.worktree", "../../../ada"),
        ("core.worktree", "x/../../../../ada"),
    ],
)
def test_a_harmless_setting_with_a_value_that_executes_is_removed(name: str, value: str) -> None:
    assert executes(GitSetting(name, value), 2)


def test_what_an_agent_needs_for_its_work_is_kept(repository: Path) -> None:
    for name, value in HARMLESS.items():
        git(repository, "config", name, value)
    git(repository, "config", 'branch.a"b\\c.description', 'two\nlines "quoted"\t\\')
    before = git(repository, "config", "--local", "--list", "-z")
    assert search(repository) == TrapReport()
    set_fsmonitor(repository)
    assert search(repository).changes == ("repo/.git/config",)
    assert git(repository, "config", "--local", "--list", "-z") == before


def test_what_was_disabled_is_kept_beside_it(repository: Path) -> None:
    set_hook(repository)
    text = (repository / ".git/hooks/post-index-change").read_text()
    for _ in range(2):
        report = search(repository)
        set_hook(repository)
    files = [path for path in (repository / ".git/hooks").iterdir() if path.name.endswith(DISABLED)]
    assert len(files) == 2 == len(report.disabled)
    assert {file.read_text() for file in files} == {text}


def test_a_directory_of_the_owner_is_not_changed_but_its_traps_are_named(repository: Path) -> None:
    set_fsmonitor(repository)
    set_hook(repository)
    config = (repository / ".git/config").read_bytes()
    report = search(repository, disable=False)
    assert set(report.warnings) == {"repo/.git/config", "repo/.git/hooks/post-index-change"}
    assert report.disabled == report.changes == ()
    assert (repository / ".git/config").read_bytes() == config


def test_files_of_other_programs_are_named(repository: Path) -> None:
    paths = (".envrc", ".vscode/tasks.json", "a.code-workspace", "mise.toml", ".hg/hgrc", "x/.exrc")
    for path in paths:
        file = repository / path
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
    assert set(search(repository).warnings) == {f"repo/{path}" for path in paths}


def test_a_link_out_of_the_workspace_is_not_followed(repository: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(repository, outside)
    set_fsmonitor(outside)
    (repository / "sub").symlink_to(outside)
    assert search(repository) == TrapReport()


def test_a_configuration_that_git_refuses_is_moved_aside(repository: Path) -> None:
    (repository / ".git/config").write_text("[core\n")
    assert search(repository).changes == ("repo/.git/config",)
    assert git(repository, "status", "--short") == ""


def test_any_name_of_a_file_can_be_shown(repository: Path) -> None:
    folder = repository / os.fsdecode(b"\xff\x1b[2J")
    folder.mkdir()
    (folder / ".envrc").write_text("x")
    assert search(repository).warnings == ("repo/\N{REPLACEMENT CHARACTER}\x1b[2J/.envrc",)


def test_a_workspace_that_is_too_deep_or_unreadable_is_reported(repository: Path) -> None:
    deep = repository
    for _ in range(70):
        deep /= "d"
        deep.mkdir()
    assert not search(repository).is_complete
    root, cancelled = repository.parent, Event()
    late = search_traps(root, disable=True, within_s=-1.0, cancelled=cancelled)
    cancelled.set()
    cut = search_traps(root, disable=True, within_s=WITHIN_S, cancelled=cancelled)
    assert not late.is_complete and not cut.is_complete
