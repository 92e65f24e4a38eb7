"""Creation of git repositories for tests, including malicious ones made of raw objects."""

import os
import subprocess
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@example.org",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


class GitRepository:
    """A bare repository with a branch `main`; commits are made without a work tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=main")

    def git(self, *words: str, given: bytes = b"") -> str:
        """Run git in the repository and return its standard output, stripped."""
        done = subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", f"--git-dir={self.path}", *words],
            input=given,
            capture_output=True,
            check=True,
            env={"PATH": os.environ["PATH"], **IDENTITY},
        )
        return done.stdout.decode().strip()

    def blob(self, content: bytes) -> str:
        """Store a blob and return its object id."""
        return self.git("hash-object", "-w", "--stdin", given=content)

    def commit(self, files: dict[str, str | bytes], executable: tuple[str, ...] = ()) -> str:
        """Commit exactly these files to `main`; return the commit id."""
        lines = []
        for path, content in files.items():
            text = content.encode() if isinstance(content, str) else content
            mode = "100755" if path in executable else "100644"
            lines.append(f"{mode} {self.blob(text)}\t{path}\n")
        return self.commit_index("".join(lines).encode())

    def commit_index(self, lines: bytes) -> str:
        """Commit index entries of any mode, each line `mode object<tab>path`."""
        self.git("read-tree", "--empty")
        self.git("update-index", "--add", "--index-info", given=lines)
        return self.commit_tree(self.git("write-tree"))

    def raw_tree(self, *entries: tuple[str, str, str]) -> str:
        """Store a tree that git itself would refuse; an entry is mode, name and object id."""
        content = b"".join(
            f"{mode} {name}".encode() + b"\0" + bytes.fromhex(object_id)
            for mode, name, object_id in entries
        )
        return self.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=content)

    def commit_tree(self, tree: str) -> str:
        """Commit a tree without a parent and set `main` to it."""
        commit = self.git("commit-tree", tree, "-m", "c")
        self.git("update-ref", "refs/heads/main", commit)
        return commit
