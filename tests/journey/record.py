"""Record docs/demo/core-jobs.md from a real stack: `make demo`.

The score is the rehearsal model's; everything else is what anybody gets who types the same.
"""

import time
from pathlib import Path

from tests.journey.jobs import SCORE, Talk, check_the_work, leave_the_lists, work_while_talking
from tests.journey.recording import run_recording, step
from tests.journey.test_core_jobs import Ears
from tests.support.stack import (
    ConsoleUser,
    EmbeddedStack,
    console_user,
    read_log,
    running_stack_in_thread,
    sessions_of,
)

PAGE = SCORE.parent / "core-jobs.md"
HEAD = Path(__file__).parent / "core-jobs.head.md"
SHOWN = (
    "core_started", "core_reported", "injected_instruction", "cancelled", "core_stopped",
    "report_begun", "user_msg", "reply",
)  # fmt: skip


class Recorder:
    """Writes down what is said and heard, with the seconds since the beginning."""

    def __init__(self, user: ConsoleUser) -> None:
        self._user, self._ears = user, Ears(user)
        self._start = time.perf_counter()
        self.lines: list[str] = []

    async def say(self, text: str) -> None:
        """Say it, and write it down."""
        self._write("›", text)
        await self._user.says(text)

    async def hear(self) -> str:
        """Hear the next message, and write it down."""
        text = await self._ears.hear()
        self._write("main", text)
        return text

    def _write(self, who: str, text: str) -> None:
        seconds = time.perf_counter() - self._start
        indent = "\n" + " " * (9 + len(who))
        flat = text.replace("\n\n", "\n").replace("\n", indent)
        self.lines.append(f"{seconds:6.2f}  {who} {flat}")


async def record() -> None:
    """Hold the conversation, check it, and write the page."""
    async with running_stack_in_thread(SCORE) as stack:
        workspace = leave_the_lists(stack)
        async with console_user(stack.endpoint) as user:
            recorder = Recorder(user)
            async with step("talk beside core jobs"):
                await work_while_talking(Talk(recorder.say, recorder.hear))
        async with step("check of the work"):
            await check_the_work(stack)
        (session, *_) = await sessions_of(stack)
        verified = stack.run("session", "verify", session["session_id"]).strip()
        files = "\n".join(
            f"$ cat {name}\n{(workspace / name).read_text().rstrip()}"
            for name in ("fruit.txt", "tools.txt")
        )
        log = "\n".join(await shown_events(stack, session["session_id"]))
    parts = {"talk": "\n".join(recorder.lines), "files": files, "log": log, "verify": verified}
    PAGE.write_text(HEAD.read_text().format_map(parts))


async def shown_events(stack: EmbeddedStack, session_id: str) -> list[str]:
    """Return the log's events that tell of jobs and words, one line each."""
    return [
        f"{event.rev:4}  {event.lane:19} {event.type:21} {told(event.payload)}".rstrip()
        for event in await read_log(stack, session_id)
        if event.type in SHOWN or event.payload.get("status") == "refused"
    ]


def told(payload: dict[str, object]) -> str:
    """Return what an event says, on one line."""
    for key in ("outcome", "task_spec", "body", "text", "subject", "target", "output"):
        if payload.get(key):
            flat = " ".join(str(payload[key]).split())
            return flat if len(flat) <= 60 else flat[:59] + "…"
    return ""


if __name__ == "__main__":
    run_recording(record())
