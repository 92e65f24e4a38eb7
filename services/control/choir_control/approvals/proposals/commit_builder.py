"""Git operations on a bare clone of an agent's repository: fetch, merge, commit and push.

Nothing is checked out and no hook runs on this host. A push names the commit it expects on the remote
ref (`--force-with-lease`), so that it updates exactly that commit or fails.
"""

import asyncio
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import ChoirError, InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_control.images.repositories.credentials import GitCredentials
from choir_control.images.repositories.git import Git
from choir_control.images.repositories.source import RepositorySource
from choir_control.images.repositories.tree import parse_listing

READ_TIMEOUT_S = 30.0
TRANSFER_TIMEOUT_S = 60.0
MAX_DIFF_BYTES = 150_000
MAX_DIFFSTAT_CHARS = 8_000
# A repository on this machine is served by a git process of ours, which must not run code from it.
RECEIVE_PACK_COMMAND = (
    "git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
    "-c", "core.alternateRefsCommand=true", "-c", "receive.autogc=false", "-c", "gc.auto=0",
    "receive-pack",
)  # fmt: skip
DIFF_OPTIONS = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--no-relative",
    "-r",
)


@dataclass(frozen=True, slots=True)
class CommitAuthor:
    """Author and time of a commit; equal values give equal commit ids."""

    name: str
    email: str
    timestamp: int
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class MergeResult:
    """Result of merging a branch."""

    tree: str
    fast_forward: bool


class _AuthoringGit(Git):
    """Git with an author and committer in its environment."""

    def __init__(self, environment: Mapping[str, str], signature: CommitAuthor) -> None:
        super().__init__(environment)
        at = f"@{signature.timestamp} +0000"
        self._signed = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (("NAME", signature.name), ("EMAIL", signature.email), ("DATE", at))
        }

    def environment(self, protocol: str = "") -> dict[str, str]:
        """Return git's complete environment, with author and committer."""
        return {**super().environment(protocol), **self._signed}


class CommitBuilder:
    """The bare clone of one agent's repository; used by one task at a time."""

    def __init__(
        self,
        directory: Path,
        source: RepositorySource,
        *,
        environment: Mapping[str, str],
        credentials: GitCredentials | None = None,
    ) -> None:
        self.source = source
        self._directory = directory
        self._environment = environment
        self._git = Git(environment, credentials)

    async def remote_tip(self, branch: str) -> str | None:
        """Return the commit of a branch on the remote, or None if the branch does not exist."""
        output = await self._git.run(
            await self._ensure_clone(),
            "ls-remote", "--refs", "--end-of-options", self.source.url, f"refs/heads/{branch}",
            remote=self.source,
            timeout_s=READ_TIMEOUT_S,
        )  # fmt: skip
        for line in output.decode("utf-8", "replace").splitlines():
            commit, _, name = line.partition("\t")
            if name == f"refs/heads/{branch}":
                return commit
        return None

    async def fetch(self, branch: str) -> str:
        """Fetch a branch completely; return its commit. Raises InvalidRequest when it does not exist."""
        commit = await self.remote_tip(branch)
        if commit is None:
            raise InvalidRequest(
                _("There is no branch {branch!r} in {display_name}.").format(
                    branch=branch, display_name=self.source.display_name
                )
            )
        local = f"refs/heads/{branch}"
        await self._git.run(
            await self._ensure_clone(),
            "fetch", "--quiet", "--force", "--no-tags", "--no-write-fetch-head",
            "--no-recurse-submodules", "--no-auto-maintenance", "--end-of-options",
            self.source.url, f"+{local}:{local}",
            remote=self.source,
            timeout_s=TRANSFER_TIMEOUT_S,
        )  # fmt: skip
        # ^{commit}: fail for any other kind of object
        return await self._run_text(
            "rev-parse", "--verify", "--end-of-options", f"{local}^{{commit}}"
        )

    async def merge(self, base: str, commit: str) -> MergeResult:
        """Merge in memory; raises InvalidRequest for conflicts, unrelated histories and forbidden files."""
        try:
            common = await self._run_text("merge-base", base, commit)
        except Unavailable:
            raise InvalidRequest(_("The branch shares no history with its target.")) from None
        if common == base:
            tree = await self._run_text("rev-parse", f"{commit}^{{tree}}")
        else:
            try:
                tree = await self._run_text(
                    "merge-tree", "--write-tree", "--no-messages", base, commit
                )
            except Unavailable:
                raise InvalidRequest(
                    _(
                        "The branch does not merge into {ref} without conflicts: merge that into it "
                        "first, and propose it again."
                    ).format(ref=self.source.ref)
                ) from None
        # The result is what agents receive, so it must pass the checks of a fetched repository.
        await self._check(tree)
        return MergeResult(tree, common == base)

    async def describe_changes(self, base: str, tree: str) -> dict[str, str]:
        """Return the complete difference, as a summary and as text.

        Raises InvalidRequest when a human could not read it: too large, binary, or not UTF-8.
        """
        numstat = await self._run_text("diff-tree", *DIFF_OPTIONS, "--numstat", base, tree)
        if not numstat:
            raise InvalidRequest(_("The branch changes nothing."))
        # numstat prints - instead of counts for binary files
        if any(line.startswith("-\t") for line in numstat.splitlines()):
            raise InvalidRequest(
                _("The branch changes a binary file, which a human cannot review.")
            )
        stat = await self._run_text(
            "diff-tree", *DIFF_OPTIONS, "--stat=100", "--summary", base, tree
        )
        try:
            diff = await self._run("diff-tree", *DIFF_OPTIONS, "-p", "--full-index", base, tree)
            text = diff.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidRequest(_("The branch changes a file that is not UTF-8.")) from None
        if len(diff) > MAX_DIFF_BYTES or len(stat) > MAX_DIFFSTAT_CHARS:
            raise InvalidRequest(
                _(
                    "The branch changes more than a human can be shown ({count} bytes; {max_diff_bytes} at "
                    "most). Propose it in parts."
                ).format(count=len(diff), max_diff_bytes=MAX_DIFF_BYTES)
            )
        return {"diffstat": stat, "diff": text}

    async def read_file(self, commit: str, path: str) -> bytes | None:
        """Return a file's content at a commit, or None if it does not exist."""
        listing = await self._run_text("ls-tree", "--full-tree", commit, "--", path)
        if not listing:
            return None
        return await self._run("cat-file", "blob", f"{commit}:{path}")

    async def write_tree_with(self, base: str, files: Mapping[str, str]) -> str:
        """Return the id of a commit's tree with these files added or replaced."""
        directory = await self._ensure_clone()
        await self._run("read-tree", base)
        scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=directory))
        try:
            for path, text in files.items():
                await asyncio.to_thread((scratch / "file").write_text, text, encoding="utf-8")
                # --no-filters: attributes of the repository must not change the content
                blob = await self._run_text(
                    "hash-object", "-w", "--no-filters", "--", str(scratch / "file")
                )
                await self._run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
        tree = await self._run_text("write-tree")
        await self._check(tree)
        return tree

    async def commit(
        self, tree: str, parents: tuple[str, ...], message: str, author: CommitAuthor
    ) -> str:
        """Create a commit; `tree` is the id of a tree or of a commit. Returns its id."""
        git = _AuthoringGit(self._environment, author)
        parent_arguments = [word for parent in parents for word in ("-p", parent)]
        tree_id = await self._run_text("rev-parse", f"{tree}^{{tree}}")
        directory = await self._ensure_clone()
        output = await git.run(directory, "commit-tree", tree_id, *parent_arguments, "-m", message)
        return output.decode().strip()

    async def has_commit(self, commit: str) -> bool:
        """Return whether a commit is present, complete enough to be pushed."""
        try:
            await self._run("rev-list", "--objects", "--max-count=1", commit)
        except Unavailable:
            return False
        return True

    async def is_ancestor(self, tip: str, commit: str) -> bool:
        """Return whether a commit is an ancestor of a fetched tip, or the tip itself."""
        if not await self.has_commit(commit):
            return False
        try:
            return await self._run_text("merge-base", commit, tip) == commit
        except Unavailable:
            return False

    async def push(self, commit: str, branch: str, expected: str) -> None:
        """Set a branch of the remote to `commit` if it is still at `expected`; raises Unavailable."""
        # only a local repository is served by a process that we start
        refs = (
            [f"--receive-pack={shlex.join(RECEIVE_PACK_COMMAND)}"]
            if self.source.protocol == "file"
            else []
        )
        target = f"refs/heads/{branch}"
        await self._git.run(
            await self._ensure_clone(),
            "push", "--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--no-signed",
            f"--force-with-lease={target}:{expected}", *refs, "--end-of-options",
            self.source.url, f"{commit}:{target}",
            remote=self.source,
            timeout_s=TRANSFER_TIMEOUT_S,
        )  # fmt: skip

    async def delete_branch(self, branch: str, expected: str) -> None:
        """Delete a branch of the remote if it is still at `expected`; raises Unavailable."""
        await self.push("", branch, expected)

    async def _check(self, tree: str) -> None:
        listing = await self._run("ls-tree", "-r", "-z", "--long", "--full-tree", tree)
        parse_listing(listing, self.source.display_name)

    async def _run_text(self, *arguments: str) -> str:
        return (await self._run(*arguments)).decode("utf-8", "replace").strip()

    async def _run(self, *arguments: str) -> bytes:
        return await self._git.run(await self._ensure_clone(), *arguments)

    async def _ensure_clone(self) -> Path:
        if not (self._directory / "HEAD").exists():
            try:
                await asyncio.to_thread(self._directory.mkdir, 0o700, True, True)
            except OSError as error:
                raise Unavailable(
                    _("Cannot make {directory}: {error}.").format(
                        directory=self._directory, error=error.strerror
                    )
                ) from error
            await self._git.run(
                self._directory, "init", "--bare", "--quiet", "--template=", "--initial-branch=none"
            )
        return self._directory


async def push_to_configured_ref(clone: CommitBuilder, commit: str, expected: str) -> bool:
    """Push `commit` to the configured ref, unless the ref already contains it; return whether it does.

    False: the ref has other commits. Raises Unavailable when the result is unknown.
    """
    ref = clone.source.ref
    if await clone.remote_tip(ref) == expected:
        try:
            await clone.push(commit, ref, expected)
        except ChoirError:
            # the response may be lost after a successful push, or the ref may have moved
            if await clone.remote_tip(ref) == expected:
                raise
    tip = await clone.fetch(ref)
    return await clone.is_ancestor(tip, commit)
