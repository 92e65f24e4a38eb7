"""The examples of docs/console.md, run as they stand there, against a whole stack."""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from choir_common.wire.events import UserMessageStarted, parse_payload
from choir_common.wire.messages import OutboundMessage
from tests.support.stack import (
    ConsoleUser,
    EmbeddedStack,
    console_user,
    read_log,
    running_stack,
    sessions_of,
)

PAGE = Path(__file__).parent.parent.parent / "docs" / "console.md"
PLAN = {"path": ".choirtmp/send/plan.md"}
CHANGE = {"patch": {"event_window": 300}, "reason": "to see it asked for"}
WITHIN_S = 300

pytestmark = [
    pytest.mark.skipif(shutil.which("curl") is None, reason="NOT TESTED: curl is not installed"),
    # tests/service/control/test_console.py and tests/security/control have each request
    pytest.mark.nightly,
]


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack() as stack:
        yield stack


def examples() -> dict[str, str]:
    """Return the page's examples, each by the section it stands in; the first defines `choir`."""
    found: dict[str, str] = {}
    for section in PAGE.read_text().split("\n## "):
        code = "".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))
        found[section.partition("\n")[0]] = code
    return found


async def run(stack: EmbeddedStack, folder: Path, code: str, **env: str) -> str:
    """Run an example in a folder; return what it printed."""
    prelude = examples()["# The console over HTTP"]

    def in_a_shell() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-ec", f"{prelude}\n{code}"],
            cwd=folder,
            env={**os.environ, "CHOIR_HOME": str(stack.home), **env},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )

    done = await asyncio.to_thread(in_a_shell)
    assert done.returncode == 0, (code, done.stdout, done.stderr)
    return done.stdout


def parts(printed: str) -> list[dict[str, object]]:
    """Return the JSON documents that stand one after the other."""
    found, at = [], 0
    while at < len(printed.rstrip()):
        value, at = json.JSONDecoder().raw_decode(printed, at)
        found.append(value)
    return found


async def hears(user: ConsoleUser, what: str) -> OutboundMessage:
    """Wait for a message with `attachments` or `buttons`."""
    async with asyncio.timeout(WITHIN_S), user.arrived:
        while True:
            for message in user.heard:
                if getattr(message, what):
                    return message
            await user.arrived.wait()


async def user_messages(stack: EmbeddedStack) -> list[UserMessageStarted]:
    (session,) = await sessions_of(stack)
    words = [parse_payload(event) for event in await read_log(stack, session["session_id"])]
    return [it for it in words if isinstance(it, UserMessageStarted)]


async def test_words_are_said_corrected_and_replied_to(
    stack: EmbeddedStack, tmp_path: Path
) -> None:
    async with console_user(stack.endpoint) as user:
        printed = parts(await run(stack, tmp_path, examples()["Send a message"]))
        for accepted in printed:
            await user.wait_for_answer(str(accepted["inbox_id"]))
        first = examples()["Send a message"].partition("\n")[0]
        (again,) = parts(await run(stack, tmp_path, first))
    assert (again["inbox_id"], again["duplicate"]) == (printed[0]["inbox_id"], True)
    said = {it.text: it for it in await user_messages(stack)}
    assert said["hello there"].corrects == "hello"
    assert said["What do you mean?"].reply_to == "its words, or a part of them"


async def test_what_is_said_is_heard_and_read_again(stack: EmbeddedStack, tmp_path: Path) -> None:
    async with console_user(stack.endpoint) as user:
        answer = await user.asks("hello")
    follow, read = examples()["Receive messages"].strip().split("\n")
    # an endless stream: cut once it has said something
    heard = await run(stack, tmp_path, f"{follow} | grep -m1 '^data: '")
    assert OutboundMessage.model_validate_json(heard.removeprefix("data: ")).dm == "console"
    (page,) = parts(await run(stack, tmp_path, read))
    assert answer in [it["text"] for it in page["messages"]]  # type: ignore[attr-defined]


async def test_files_go_both_ways(stack: EmbeddedStack, tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("4711")
    put_and_say, get = examples()["Files"].rsplit("\nchoir", 1)
    async with console_user(stack.endpoint) as user:
        (accepted,) = parts(await run(stack, tmp_path, put_and_say))
        await user.wait_for_answer(str(accepted["inbox_id"]))
        (file,) = [f for it in await user_messages(stack) for f in it.attachments]
        assert (stack.home / "workspaces" / "main" / file.path).read_text() == "4711"
        await user.asks(f"/tool choir.fs.write {json.dumps({**PLAN, 'content': 'the plan'})}")
        await user.asks(f"/tool choir.message.send {json.dumps({'files': [PLAN]})}")
        sent = await hears(user, "attachments")
    names = {"NUMBER": str(sent.outbox_id), "FILE_REF": sent.attachments[0].ref}
    await run(stack, tmp_path, f"choir{get}", **names)
    assert (tmp_path / "received.bin").read_text() == "the plan"


async def test_a_request_is_decided(stack: EmbeddedStack, tmp_path: Path) -> None:
    async with console_user(stack.endpoint) as user:
        await user.asks(f"/tool choir.propose.config_change {json.dumps(CHANGE)}")
        asked = await hears(user, "buttons")
        names = {"NUMBER": str(asked.outbox_id), "DATA": asked.buttons[0].data}
        assert parts(await run(stack, tmp_path, examples()["Answer approvals"], **names)) == [
            {"answer": "Approved."}
        ]
        again = parts(await run(stack, tmp_path, examples()["Answer approvals"], **names))
        assert again != [{"answer": "Approved."}]
