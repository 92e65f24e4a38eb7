"""Commit an agent's folder to its mirror, so that it passes the same checks as a repository.

Called by `mirrors`. The commit has no parent and a fixed author and time: equal files give an equal
commit, so an image built from them stays up to date.
"""

from pathlib import Path

from choir_control.repos.git import Git
from choir_control.repos.source import FOLDER_CONTENTS, Source

INDEX = "folder-index"
WHEN = "1970-01-01T00:00:00Z"
NAME, ADDRESS = "choird", "choird@localhost"
NOBODY = {
    "GIT_AUTHOR_NAME": NAME,
    "GIT_AUTHOR_EMAIL": ADDRESS,
    "GIT_AUTHOR_DATE": WHEN,
    "GIT_COMMITTER_NAME": NAME,
    "GIT_COMMITTER_EMAIL": ADDRESS,
    "GIT_COMMITTER_DATE": WHEN,
}


async def commit_folder(git: Git, directory: Path, source: Source, within_s: float) -> None:
    """Make the folder's files the newest commit of the mirror in `directory`.

    Symbolic links and nested repositories are committed as such; reading the commit then refuses them.
    Raises Unavailable, DeadlineExceeded.
    """
    folder, index = Path(source.url), directory / INDEX
    there = [name for name in FOLDER_CONTENTS if (folder / name).is_dir()]
    # an index of an earlier run would keep files that were deleted since
    index.unlink(missing_ok=True)
    more = {**NOBODY, "GIT_INDEX_FILE": str(index)}
    at = {"GIT_WORK_TREE": str(folder)}
    add = ("add", "--force", "--all", "--", *there)
    await git.run(directory, *add, more=more | at, cwd=folder, within_s=within_s)
    tree = await git.run(directory, "write-tree", more=more)
    words = ("commit-tree", "--no-gpg-sign", "-m", "The folder", tree.decode().strip())
    commit = await git.run(directory, *words, more=more)
    await git.run(directory, "update-ref", source.local_ref, commit.decode().strip())
