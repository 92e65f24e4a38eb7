"""Make git repositories for tests: well-behaved ones, and the raw objects hostile ones are made of."""

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


class Repository:
    """A bare repository with a branch `main`, written to without a work tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=main")

    def git(self, *words: str, given: bytes = b"") -> str:
        """Run git on it and return what it wrote."""
        done = subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", f"--git-dir={self.path}", *words],
            input=given,
            capture_output=True,
            check=True,
            env={"PATH": os.environ["PATH"], **IDENTITY},
        )
        return done.stdout.decode().strip()

    def blob(self, content: bytes) -> str:
        """Store a file's content."""
        return self.git("hash-object", "-w", "--stdin", given=content)

    def commit(self, files: dict[str, str | bytes], executable: tuple[str, ...] = ()) -> str:
        """Commit exactly these files to `main`."""
        lines = []
        for path, content in files.items():
            text = content.encode() if isinstance(content, str) else content
            mode = "100755" if path in executable else "100644"
            lines.append(f"{mode} {self.blob(text)}\t{path}\n")
        return self.commit_index("".join(lines).encode())

    def commit_index(self, lines: bytes) -> str:
        """Commit entries of any kind, each `mode object<tab>path`."""
        self.git("read-tree", "--empty")
        self.git("update-index", "--add", "--index-info", given=lines)
        return self.commit_tree(self.git("write-tree"))

    def raw_tree(self, *entries: tuple[str, str, str]) -> str:
        """Store a tree git itself would refuse; entries are mode, name and object."""
        content = b"".join(
            f"{mode} {name}".encode() + b"\0" + bytes.fromhex(object_id)
            for mode, name, object_id in entries
        )
        return self.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=content)

    def commit_tree(self, tree: str) -> str:
        """Let `main` be this tree."""
        commit = self.git("commit-tree", tree, "-m", "c")
        self.git("update-ref", "refs/heads/main", commit)
        return commit
