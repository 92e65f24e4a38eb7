"""Search for files in a workspace that make programs of its owner run commands: traps.

git runs commands of a repository's configuration and hooks without asking, also for `git status`. In a
workspace of Choir these are disabled: moved aside to names that end in `.disabled-by-choir`. Other programs
ask before they run a file of a directory for the first time; their files are only named.

Functions block; call them in threads. An agent may change the workspace meanwhile: every step is relative to
an open directory, and links are never followed.
"""

import itertools
import os
import re
import secrets
import stat
import subprocess
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from choir_common.errors import Unavailable
from choir_common.i18n import _
from choir_control.workspaces.git_settings import (
    GitSetting,
    executes,
    parse_settings,
    render_settings,
)
from choir_control.workspaces.staging import STAGING

DISABLED = ".disabled-by-choir"
MAX_ENTRIES = 200_000
MAX_DEPTH = 64
MAX_CONFIG_BYTES = 1 << 20
MAX_NAMED = 20
GIT_TIMEOUT_S = 10.0
_CONFIGS = ("config", "config.worktree")
_HOOKS = "hooks"
_SAMPLE = ".sample"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# What a program runs, or offers to run, when somebody enters or opens the directory.
_NAMED = re.compile(
    r"(.*/)?("
    r"\.envrc|\.autoenv(\.zsh)?|\.?mise(\.local)?\.toml|\.mise/config\.toml|\.tool-versions"
    r"|\.vscode/(tasks|settings|launch)\.json|[^/]*\.code-workspace|\.zed/(tasks|settings)\.json"
    r"|\.devcontainer(/devcontainer|)\.json|\.idea/workspace\.xml"
    r"|\.exrc|\.nvimrc|\.nvim\.lua|\.vimrc|\.dir-locals\.el|\.gdbinit|\.lldbinit"
    r"|\.yarnrc\.yml|\.hg/hgrc|\.jj/repo/config\.toml"
    r")"
)
# Git reads configuration from standard input without a repository, and without any other configuration.
_PARSE = ("git", "config", "--file", "-", "--no-includes", "--null", "--list")
_GIT_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


@dataclass(frozen=True, slots=True)
class TrapReport:
    """Traps of a workspace, as paths relative to it."""

    changes: tuple[str, ...] = ()
    """Configuration and hooks of git that this search has disabled."""
    disabled: tuple[str, ...] = ()
    """All files that are disabled, also by earlier searches."""
    warnings: tuple[str, ...] = ()
    """Traps that were left as they are."""
    is_complete: bool = True
    """False if there are more entries or levels than are searched, or directories that cannot be read."""


def search_traps(
    root: Path, *, disable: bool, within_s: float, cancelled: threading.Event
) -> TrapReport:
    """Search a workspace for at most `within_s` seconds, the upper directories first.

    It ends early, incomplete, when `cancelled` is set. With `disable`, git's configuration and hooks are
    disabled, otherwise they are named. Raises OSError if `root` cannot be opened as a directory, and
    Unavailable if git cannot be run.
    """
    top = os.open(root.expanduser(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + within_s
        return _TrapSearch(top, disable, deadline, cancelled).run()
    finally:
        os.close(top)


@dataclass(slots=True)
class _TrapSearch:
    """One search through an open directory."""

    top: int
    disable: bool
    deadline: float
    cancelled: threading.Event
    changes: list[str] = field(default_factory=list)
    disabled: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    entries: int = 0
    is_complete: bool = True

    def run(self) -> TrapReport:
        waiting: deque[tuple[str, ...]] = deque([()])
        while waiting:
            too_long = self.entries > MAX_ENTRIES or time.monotonic() > self.deadline
            if too_long or self.cancelled.is_set():
                self.is_complete = False
                break
            path = waiting.popleft()
            try:
                waiting.extend(self._search_directory(path))
            except FileNotFoundError:
                continue  # deleted meanwhile
            except OSError:
                self.is_complete = False
        return TrapReport(
            _shown(self.changes),
            _shown(sorted(self.disabled)),
            _shown(self.warnings),
            self.is_complete,
        )

    def _search_directory(self, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Check a directory; return its subdirectories."""
        directory = self._open(path)
        try:
            if _is_git_directory(directory):
                self._check_git_directory(directory, path)
            inner = []
            with os.scandir(directory) as entries:
                for entry in itertools.islice(entries, MAX_ENTRIES):
                    self.entries += 1
                    self._note(_join(path, entry.name))
                    if entry.is_dir(follow_symlinks=False):
                        inner.append((*path, entry.name))
        finally:
            os.close(directory)
        if len(path) >= MAX_DEPTH and inner:
            self.is_complete = False
            return []
        return [child for child in inner if child != (STAGING,)]

    def _note(self, path: str) -> None:
        if path.endswith(DISABLED):
            self.disabled.add(path)
        elif _NAMED.fullmatch(path):
            self.warnings.append(path)

    def _open(self, path: tuple[str, ...]) -> int:
        directory = os.dup(self.top)
        for name in path:
            try:
                inner = os.open(name, _DIRECTORY, dir_fd=directory)
            finally:
                os.close(directory)
            directory = inner
        return directory

    def _check_git_directory(self, directory: int, path: tuple[str, ...]) -> None:
        for name in _CONFIGS:
            if _exists(directory, name):
                self._check_config(directory, name, path)
        if _exists(directory, _HOOKS):
            self._check_hooks(directory, path)

    def _check_config(self, directory: int, name: str, path: tuple[str, ...]) -> None:
        """Remove the settings that execute; a file that git cannot read is removed as a whole."""
        content = _read_regular(directory, name)
        settings = None if content is None else _parse(content)
        if settings is not None and not any(executes(it, len(path)) for it in settings):
            return
        self._trap(directory, name, path)
        if settings is not None and self.disable:
            harmless = [setting for setting in settings if not executes(setting, len(path))]
            _write_new(directory, name, render_settings(harmless))

    def _check_hooks(self, directory: int, path: tuple[str, ...]) -> None:
        try:
            hooks = os.open(_HOOKS, _DIRECTORY, dir_fd=directory)
        except OSError:  # a link, or no directory
            self._trap(directory, _HOOKS, path)
            return
        try:
            with os.scandir(hooks) as entries:
                names = [entry.name for entry in entries if _is_hook(hooks, entry.name)]
            for name in names:
                self._trap(hooks, name, (*path, _HOOKS))
        finally:
            os.close(hooks)

    def _trap(self, directory: int, name: str, path: tuple[str, ...]) -> None:
        """Move a trap aside, or name it."""
        if not self.disable:
            self.warnings.append(_join(path, name))
            return
        self.disabled.add(_join(path, _move_aside(directory, name)))
        self.changes.append(_join(path, name))


def _shown(paths: list[str]) -> tuple[str, ...]:
    """Return the first paths, as text that JSON can contain whatever bytes an agent put into the names."""
    return tuple(os.fsencode(path).decode(errors="replace") for path in paths[:MAX_NAMED])


def _join(path: tuple[str, ...], name: str) -> str:
    return "/".join((*path, name))


def _is_git_directory(directory: int) -> bool:
    """Return whether git takes a directory for a repository, or for the common part of one."""
    return _exists(directory, "HEAD") or (
        _exists(directory, "objects") and _exists(directory, "refs")
    )


def _is_hook(hooks: int, name: str) -> bool:
    if name.endswith((_SAMPLE, DISABLED)):
        return False
    mode = os.stat(name, dir_fd=hooks, follow_symlinks=False).st_mode
    return stat.S_ISLNK(mode) or (stat.S_ISREG(mode) and bool(mode & 0o111))


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _read_regular(directory: int, name: str) -> bytes | None:
    """Return the content of a small regular file; None for anything else."""
    try:
        file = os.open(name, _READ, dir_fd=directory)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_CONFIG_BYTES:
            return None
        return opened.read(MAX_CONFIG_BYTES)


def _parse(content: bytes) -> list[GitSetting] | None:
    """Return the settings of a configuration; None if git refuses it. Raises Unavailable without git."""
    environment = {**_GIT_ENVIRONMENT, "PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(
            _PARSE,
            input=content,
            capture_output=True,
            cwd="/",
            env=environment,
            timeout=GIT_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        raise Unavailable(
            _("Cannot run git: {error}. Is it installed?").format(error=error)
        ) from error
    if done.returncode != 0:
        return None
    return parse_settings(done.stdout.decode("utf-8", "surrogateescape"))


def _move_aside(directory: int, name: str) -> str:
    """Rename an entry, so that no program reads it; return its new name. Nothing is deleted."""
    aside = f"{name}{DISABLED}"
    if _exists(directory, aside):
        aside = f"{name}.{secrets.token_hex(8)}{DISABLED}"
    os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
    return aside


def _write_new(directory: int, name: str, text: str) -> None:
    file = os.open(name, _WRITE, 0o644, dir_fd=directory)
    with os.fdopen(file, "wb") as opened:
        opened.write(text.encode("utf-8", "surrogateescape"))
