"""A git call that is cut short leaves nothing behind that the next one fails on."""

import asyncio
import os
import time
from pathlib import Path

from choir_control.images.repositories.git import Git

# called by git while it holds the lock files of the refs that it is about to change
HOOK = """#!/bin/sh
[ "$1" = prepared ] || exit 0
touch {reached}
exec sleep 600
"""


async def test_a_call_that_is_cancelled_leaves_no_lock_file(tmp_path: Path) -> None:
    git, bare, reached = Git(os.environ), tmp_path / "bare", tmp_path / "reached"
    hook = tmp_path / "hooks" / "reference-transaction"
    bare.mkdir()
    hook.parent.mkdir()
    hook.write_text(HOOK.format(reached=reached))
    hook.chmod(0o755)
    await git.run(bare, "init", "--bare", "--quiet")
    tree = (await git.run(bare, "hash-object", "-w", "-t", "tree", "/dev/null")).decode().strip()
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    commit = (await git.run(bare, *who, "commit-tree", tree, "-m", "one")).decode().strip()
    change = ("-c", f"core.hooksPath={hook.parent}", "update-ref")
    for steps in range(1, 6):
        # A ref of its own: a signal between git's creation of a lock file and its registering it leaves
        # the file. Mirrors clear such files before they use a repository again.
        slow = asyncio.create_task(git.run(bare, *change, f"refs/heads/cut{steps}", commit))
        for _ in range(steps):
            await asyncio.sleep(0)
        # git reaches its hook before this process has noticed that git runs
        time.sleep(0.1)
        slow.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait([slow])
    reached.unlink(missing_ok=True)
    slow = asyncio.create_task(git.run(bare, *change, "refs/heads/a", commit))
    async with asyncio.timeout(60):
        while not reached.exists():
            assert not slow.done(), slow.exception()
            await asyncio.sleep(0.01)
        slow.cancel()
        await asyncio.wait([slow])
    await git.run(bare, "update-ref", "refs/heads/a", commit)
    assert (await git.run(bare, "rev-parse", "refs/heads/a")).decode().strip() == commit
