"""Writer of a commit's files, checked one by one: plain files inside the tree, within the size limits.

Objects are read individually instead of by archive or checkout, so that no attribute, filter or link
of the repository affects what is written.
"""

import asyncio
import contextlib
import re
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_common.plain_paths import find_path_fault
from choir_control.images.repositories.git import Git

MAX_FILES = 20_000
MAX_FILE_BYTES = 64 << 20
MAX_TREE_BYTES = 512 << 20
WRITE_TIMEOUT_S = 120.0
CHUNK = 1 << 20
EXECUTABLE = "100755"
PLAIN_FILE_MODES = ("100644", "100664", EXECUTABLE)
REFUSED_MODES = {"120000": "a symbolic link", "160000": "a submodule"}
_LINE = re.compile(rb"(\d{6}) (\w+) ([0-9a-f]{40,64}) +(\d+|-)\t(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file of a commit."""

    path: str
    object_id: str
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class RepositoryTree:
    """The files of a commit, and the directory they were written to."""

    commit: str
    root: Path
    files: dict[str, TreeEntry]

    def read(self, path: str) -> bytes:
        """Return a file's content; blocking."""
        return (self.root / path).read_bytes()


async def write_tree(
    git: Git, directory: Path, commit: str, display_name: str, into: Path
) -> RepositoryTree:
    """Write all files of `commit` below `into`.

    Raises InvalidRequest with the path and the reason for anything that is not allowed, TooLarge for a huge
    listing.
    """
    output = await git.run(directory, "ls-tree", "-r", "-z", "--long", "--full-tree", commit)
    entries = parse_listing(output, display_name)
    await asyncio.to_thread(_write_all, git, directory, entries, into)
    return RepositoryTree(commit, into, {entry.path: entry for entry in entries})


def parse_listing(output: bytes, repository: str) -> list[TreeEntry]:
    """Return the files of a listing; raises InvalidRequest at the first that is not allowed."""
    entries, total = [], 0
    for line in output.split(b"\0")[:-1]:
        entry = _entry(line, repository)
        total += entry.size
        entries.append(entry)
        if len(entries) > MAX_FILES or total > MAX_TREE_BYTES:
            raise InvalidRequest(
                _(
                    "{repository} holds more than {max_files} files or {max_tree_bytes} MiB, which is too "
                    "large for a repository of tools."
                ).format(
                    repository=repository, max_files=MAX_FILES, max_tree_bytes=MAX_TREE_BYTES >> 20
                )
            )
    _check_unique(entries, repository)
    return entries


def _entry(line: bytes, repository: str) -> TreeEntry:
    match = _LINE.fullmatch(line)
    if match is None:
        raise InvalidRequest(
            _("{repository} contains an unreadable entry.").format(repository=repository)
        )
    mode, kind, object_id, size, name = match.groups()
    try:
        path = name.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(
            _("{repository} contains a file name that is not UTF-8: {name!r}.").format(
                repository=repository, name=name[:80]
            )
        ) from None
    if mode.decode() not in PLAIN_FILE_MODES or kind != b"blob":
        kind_of_file = REFUSED_MODES.get(mode.decode(), "something else")
        raise InvalidRequest(
            _("{repository}: {path!r} is {kind_of_file}; only plain files are allowed.").format(
                repository=repository, path=path[:120], kind_of_file=kind_of_file
            )
        )
    fault = find_path_fault(path)
    if fault:
        raise InvalidRequest(f"{repository}: {path[:120]!r} {fault}.")
    if int(size) > MAX_FILE_BYTES:
        raise InvalidRequest(
            _("{repository}: {path!r} has more than {max_file_bytes} MiB.").format(
                repository=repository, path=path[:120], max_file_bytes=MAX_FILE_BYTES >> 20
            )
        )
    return TreeEntry(path, object_id.decode(), int(size), mode.decode() == EXECUTABLE)


def _check_unique(entries: list[TreeEntry], repository: str) -> None:
    """Refuse names that are equal on a case-insensitive file system, and paths below a file."""
    seen: dict[str, str] = {}
    for entry in entries:
        name = entry.path.casefold()
        if name in seen:
            raise InvalidRequest(
                _(
                    "{repository}: {seen!r} and {entry!r} are equal on a case-insensitive file system."
                ).format(repository=repository, seen=seen[name], entry=entry.path)
            )
        seen[name] = entry.path
    files = set(seen)
    for entry in entries:
        parents = PurePosixPath(entry.path.casefold()).parents
        if any(str(parent) in files for parent in parents):
            raise InvalidRequest(
                _("{repository}: {entry!r} is below a file.").format(
                    repository=repository, entry=entry.path
                )
            )


def _write_all(git: Git, directory: Path, entries: list[TreeEntry], into: Path) -> None:
    into.mkdir(mode=0o700, parents=True)
    process = subprocess.Popen(
        git.command(directory, "cat-file", "--batch", "--buffer"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=git.environment(),
        cwd="/",
        start_new_session=True,
    )
    # the reads below block without a timeout of their own
    deadline = threading.Timer(WRITE_TIMEOUT_S, process.kill)
    deadline.start()
    try:
        assert process.stdin is not None and process.stdout is not None
        # In a thread: with both pipes full, git and we would wait for each other.
        feeder = threading.Thread(
            target=_request_objects, args=(process.stdin, entries), daemon=True
        )
        feeder.start()
        for entry in entries:
            _write(process.stdout, entry, into)
        feeder.join(WRITE_TIMEOUT_S)
    finally:
        deadline.cancel()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def _request_objects(stdin: IO[bytes], entries: list[TreeEntry]) -> None:
    try:
        for entry in entries:
            stdin.write(f"{entry.object_id}\n".encode())
        # git answers in full buffers, the last one when it sees the end of its input
        stdin.close()
    except (BrokenPipeError, ValueError):
        return  # the reader reports what is missing


def _write(stdout: IO[bytes], entry: TreeEntry, into: Path) -> None:
    head = stdout.readline()
    if head.split() != [entry.object_id.encode(), b"blob", str(entry.size).encode()]:
        raise Unavailable(
            _("git did not return {entry!r}; fetch the repository again.").format(entry=entry.path)
        )
    target = into / entry.path
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    remaining = entry.size
    # x: an existing file would be one that was not checked
    with target.open("xb") as file:
        while remaining:
            chunk = stdout.read(min(CHUNK, remaining))
            if not chunk:
                raise Unavailable(
                    _("git stopped in the middle of {entry!r}.").format(entry=entry.path)
                )
            file.write(chunk)
            remaining -= len(chunk)
    target.chmod(0o555 if entry.executable else 0o444)
    # git writes a line break after each object
    stdout.read(1)
