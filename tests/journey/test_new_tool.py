"""An agent designs a tool and builds it, a human says yes twice, its next session uses it.

The repository is private and behind HTTPS: control and the agent open it with the agent's git identity.
"""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from choir_common.wire.events import SkillStarted, ToolResultCommitted, parse_payload
from choir_common.wire.model import JsonObject
from tests.service.agent.git_servers import HttpsGit, https_git, make_repository, run
from tests.support.stack import (
    ConsoleUser,
    EmbeddedStack,
    console_user,
    read_log,
    running_stack_in_thread,
    sessions_of,
    verify,
)

TOKEN = "ghp_journeyToken0123456789"
ON: JsonObject = {
    "call": {"name": "choir.skill.transition", "arguments": {"on": "complete", "context": {}}}
}
MANIFEST: JsonObject = {
    "llm": {
        "name": "lines.count",
        "description": "Count the lines of a file of the workspace.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    },
    "runtime": {"timeout_ms": 10_000, "side_effect": "read", "idempotent": True, "network": False},
}
DESIGN: JsonObject = {
    "manifest": MANIFEST,
    "behaviour": "Reads the file, counts its line breaks, and answers with the number of lines.",
    "reason": "The user counts lines daily.",
}
PROGRAM = """#!/usr/bin/env python3
import json, sys
asked = json.load(sys.stdin)["input"]
with open(asked["path"]) as file:
    print(json.dumps({"lines": sum(1 for _ in file)}))
"""
# in the agent's own clone: what was approved is moved to where agents load it from, with a program beside it
WRITE = f"""
set -e
export GIT_SSL_CAINFO=$PWD/ca.pem
git clone -q {{match.url}} repo && cd repo
git checkout -q -b {{match.branch}}
mkdir -p tools && git mv proposed/tools/lines.count.json tools/lines.count.json
cat > tools/lines.count <<'END'
{PROGRAM}END
chmod +x tools/lines.count && git add tools && git commit -q -m 'Write lines.count'
git push -q origin {{match.branch}}
printf %s "$(git rev-parse HEAD)"
"""


def calls(name: str, arguments: JsonObject) -> JsonObject:
    return {"call": {"name": name, "arguments": arguments}}


SCORE: JsonObject = {
    "rules": [
        {
            "when": {"contains": "a tool that counts lines"},
            "then": [
                calls("choir.skill.start", {"skill": "tool-builder", "input": {"wish": "lines"}}),
                *(ON, ON, ON),
                calls("choir.propose.tool", DESIGN),
                ON,
                {"say": "I have proposed lines.count."},
            ],
        },
        {
            "when": {"regex": r"write it at (?P<url>\S+) as (?P<branch>\S+)"},
            "then": [
                calls("choir.exec", {"command": WRITE}),
                calls(
                    "choir.propose.repo_change",
                    {
                        "branch": "{match.branch}",
                        "commit": "{result.output.stdout}",
                        "reason": "The program of the approved tool.",
                    },
                ),
                {"say": "Written and proposed: {result}"},
            ],
        },
        {
            "when": {"contains": "how many lines"},
            "then": [
                calls("lines.count", {"path": "fruit.txt"}),
                {"say": "There are {result.output.lines} lines."},
            ],
        },
    ],
    "otherwise": [{"say": "I have no line for that."}],
}


@pytest.fixture
def remote() -> Iterator[HttpsGit]:
    root = Path(tempfile.mkdtemp(prefix="choir-jt-"))
    make_repository(root)
    with https_git(root, TOKEN) as server:
        yield server
    shutil.rmtree(root, ignore_errors=True)


class Private:
    """Rewrites the starter config for an agent with a private repository."""

    def __init__(self, remote: HttpsGit) -> None:
        self._remote = remote

    def __call__(self, home: Path) -> None:
        config = json.loads((home / "config.json").read_text())
        config["git_identities"] = {
            "dev": {
                "name": "Dev Agent",
                "email": "dev@choir.local",
                "secret": "git-dev-token",
                "hosts": [f"localhost:{self._remote.port}"],
            }
        }
        main = config["agents"]["main"]
        main["repo"] = {"url": self._remote.url("localhost")}
        main["defaults"]["git_identity"] = "dev"
        push = {"command": "*git push -q origin *"}
        config["policy"] = [{"action": "allow", "tools": ["choir.exec"], "arguments": push}]
        (home / "config.json").write_text(json.dumps(config))
        secrets = json.loads((home / "secrets.json").read_text())
        secrets["git-dev-token"] = TOKEN
        (home / "secrets.json").write_text(json.dumps(secrets))


async def choirctl(stack: EmbeddedStack, *words: str) -> str:
    return await asyncio.to_thread(stack.run, *words)


async def approve_the_one(stack: EmbeddedStack, kind: str) -> dict[str, Any]:
    """Look at the only open request as a human would, approve it, and wait until it is done."""
    [asked] = json.loads(await choirctl(stack, "approval", "list", "--json"))
    assert asked["request_type"] == kind
    name = str(asked["approval_id"])
    await choirctl(stack, "approval", "approve", name)
    async with asyncio.timeout(120):
        while True:
            view: dict[str, Any] = json.loads(
                await choirctl(stack, "approval", "show", name, "--json")
            )
            assert view["state"] != "failed", view
            if view["state"] == "applied":
                return view
            await asyncio.sleep(0.2)


async def newest(stack: EmbeddedStack) -> str:
    return str((await sessions_of(stack))[0]["session_id"])


async def tools_used(stack: EmbeddedStack, session: str) -> list[ToolResultCommitted]:
    found = [parse_payload(event) for event in await read_log(stack, session)]
    return [payload for payload in found if isinstance(payload, ToolResultCommitted)]


def files_of(remote: HttpsGit) -> set[str]:
    listed = run("git", f"--git-dir={remote.root}/repo.git", "ls-tree", "-r", "--name-only", "main")
    return set(listed.split())


async def design(stack: EmbeddedStack, user: ConsoleUser, remote: HttpsGit) -> None:
    """The agent designs with the tool-builder skill; a human approves the design."""
    said = await user.asks("I need a tool that counts lines")
    assert said == "I have proposed lines.count."
    assert "proposed/tools/lines.count.json" not in files_of(remote)  # nothing without a human
    log = [parse_payload(event) for event in await read_log(stack, await newest(stack))]
    assert [p.skill for p in log if isinstance(p, SkillStarted)] == ["tool-builder"]
    await approve_the_one(stack, "tool")
    assert "proposed/tools/lines.count.json" in files_of(remote)
    # a design alone changes no agent
    assert "tools/lines.count" not in files_of(remote)


async def build(stack: EmbeddedStack, user: ConsoleUser, remote: HttpsGit) -> None:
    """The agent writes the program on a branch of its own; a human approves the merge."""
    session = await newest(stack)
    branch = f"proposal/{session}/lines-count"
    said = await user.asks(f"Now write it at {remote.url('localhost')} as {branch}", 120)
    assert said.startswith("Written and proposed"), said
    results = await tools_used(stack, session)
    assert [(result.tool, result.status) for result in results][-2:] == [
        ("choir.exec", "success"),
        ("choir.propose.repo_change", "success"),
    ], said
    done = await approve_the_one(stack, "repo_change")
    assert "tools/lines.count" in done["basis"]["diffstat"]
    assert {"tools/lines.count", "tools/lines.count.json"} <= files_of(remote)
    current = json.loads((stack.home / "images/main/current.json").read_text())
    image = Path(current["place"])
    assert (image / "tools/agent/lines.count").read_text() == PROGRAM
    assert await newest(stack) != session  # it was updated, and goes on


@pytest.mark.nightly  # tests/service/evolution and test_rollout.py prove each step
async def test_an_agent_gets_itself_a_tool_and_a_human_decides(
    tmp_path: Path, remote: HttpsGit
) -> None:
    score = tmp_path / "score.json"
    score.write_text(json.dumps(SCORE))
    certificate = str(remote.certificate)
    trusted = {"GIT_SSL_CAINFO": certificate, "SSL_CERT_FILE": certificate}
    async with running_stack_in_thread(score, env=trusted, prepare=Private(remote)) as stack:
        workspace = stack.home / "workspaces/main"
        workspace.mkdir(parents=True, exist_ok=True)
        (workspace / "fruit.txt").write_text("pear\napple\nfig\n")
        shutil.copy(remote.certificate, workspace / "ca.pem")
        await choirctl(stack, "agent", "build", "main")
        await choirctl(stack, "agent", "start", "main")
        async with console_user(stack.endpoint) as user:
            await design(stack, user, remote)
            await build(stack, user, remote)
            assert await user.asks("how many lines are there?") == "There are 3 lines."
        session = await newest(stack)
        used = await tools_used(stack, session)
        assert [(result.tool, result.status) for result in used] == [("lines.count", "success")]
        assert (await verify(stack, session)).ok
        log = run("git", f"--git-dir={remote.root}/repo.git", "log", "--format=%an", "main")
        assert set(log.split("\n")) == {"Dev Agent", "seed", ""}
        check_no_token(stack.home)


def check_no_token(home: Path) -> None:
    """The token is in secrets.json and nowhere else: no clone, no log, no image, no workspace."""
    holding = [
        path.relative_to(home)
        for path in home.rglob("*")
        if path.is_file() and not path.is_symlink() and TOKEN.encode() in path.read_bytes()
    ]
    assert holding == [Path("secrets.json")]
