"""Check of new commits' subjects: `component: what changed`, at most 72 characters. Exits 1 on a fault.

New are the commits after the newest release tag (`v*`), or the last 200 while there is none. Merges are not
read. Subjects that are older than the rule stand in `.ci/old-commit-subjects.txt`.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAX_LENGTH = 72
WITHOUT_TAG = 200
COMPONENT = r"[a-z][a-z0-9_./-]*"
SUBJECT = re.compile(rf"^{COMPONENT}(?: {COMPONENT})?(?:, {COMPONENT})*: \S.*[^.\s]$")


def git(*arguments: str) -> str | None:
    """Return the output of a git command, or None if it failed."""
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout if done.returncode == 0 else None


def main() -> int:
    """Print each subject that breaks the rule; return the exit code."""
    tag = (git("describe", "--tags", "--abbrev=0", "--match=v*") or "").strip()
    commits = [f"{tag}..HEAD"] if tag else [f"--max-count={WITHOUT_TAG}", "HEAD"]
    output = git("log", "--no-merges", "--format=%h %s", *commits)
    if output is None:
        print("commits: git cannot read the history here", file=sys.stderr)
        return int((ROOT / ".git").exists())  # an unpacked release has no history to check
    old = set((ROOT / ".ci/old-commit-subjects.txt").read_text().splitlines())
    lines = output.splitlines()
    faults = []
    for line in lines:
        commit, _, subject = line.partition(" ")
        if subject in old:
            continue
        if not SUBJECT.match(subject):
            faults.append(f"{commit}: {subject!r} is not of the form 'component: what changed'")
        elif len(subject) > MAX_LENGTH:
            faults.append(
                f"{commit}: {subject!r} has {len(subject)} characters, at most {MAX_LENGTH}"
            )
    print(f"commits: {len(lines)} subjects checked, {f'after {tag}' if tag else 'the newest ones'}")
    for fault in faults:
        print(f"commits: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
