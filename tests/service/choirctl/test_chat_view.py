"""What a chat shows beside the words: lanes and jobs, the past, requests, files."""

import asyncio
import subprocess
from pathlib import Path

from choir_common.target import Target
from choir_common.wire.activity import Card
from choir_common.wire.events import CoreStarted, CoreStopped, Reply, UserMessageStarted
from tests.service.choirctl.console_stand_in import Console, served
from tests.service.choirctl.test_talk import Terminal, terminal
from tests.support.preloaded_choirctl import run_choirctl

LEAVE = "\x04"
A_REAL_ONE = {"TERM": "xterm"}
A_JOB = CoreStarted(job_id="j", job_name="notes", call_id="c", dm="console", task_spec="read all")
A_USER_MSG = UserMessageStarted(turn_id="t", inbox_id="i", dm="console", text="which files?")
AN_ANSWER = Reply(turn_id="t", dm="console", text="three **files**", kind="answer")


async def leaves(screen: Terminal) -> None:
    screen.types(LEAVE)
    assert await screen.ends() == 0


async def test_jobs_are_told_as_they_begin_and_end() -> None:
    console = Console()
    await console.happens(A_USER_MSG)
    async with served(console) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("Ctrl-D leaves", "› ")
            await console.happens(A_JOB, "core:notes")
            await screen.shows("· job notes begins: read all")
            end = CoreStopped(job_id="j", job_name="notes", outcome="completed", duration_ms=61_000)
            await console.happens(end, "core:notes")
            await screen.shows("· job notes completed after 61 s")
            await leaves(screen)


async def test_a_card_that_is_done_stays_on_the_screen() -> None:
    cards = [
        Card(card_id="op_1", text=text, done=done).model_dump_json()
        for text, done in (("1 of 2", False), ("all 2 agents are updated", True))
    ]
    console = Console(going_on=[("card", each) for each in cards])
    async with served(console) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("all 2 agents are updated")
            await leaves(screen)


async def test_what_was_said_before_is_shown_and_not_said_twice() -> None:
    console = Console()
    await console.happens(A_USER_MSG)
    await console.happens(AN_ANSWER)
    async with served(console) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("you: which files?", "main: three **files**", "› ")
            screen.types("/history 1\r")
            await screen.shows("main: three **files**", "/history 1")
            screen.types("/history x\r")
            await screen.shows("a number from 1 to 1000")
            await leaves(screen)
    assert console.posts == 0
    assert screen.screen.text.count("you: which files?") == 1


async def test_a_request_is_decided_by_y_and_its_edit_closes_it() -> None:
    console = Console()
    await console.say("Asked before you came", buttons=("a:old:y", "a:old:n"))
    async with served(console) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("Asked before you came", "Request 1: y approves")
            await console.say("May I use mail?", buttons=("a:new:y", "a:new:n"))
            await screen.shows("Request 2: y approves")
            screen.types("y\r")
            await screen.shows("Which of the requests? `y 1`, `y 2`")
            screen.types("y 2\r")
            await screen.shows("Approved: it is done.")
            await console.say("Rejected by another.", edits=1)
            await screen.shows("Rejected by another.")
            screen.types("y\r")
            await screen.shows("you said y")
            await leaves(screen)
    assert console.presses == [("a:new:y", "2")]


async def test_what_was_said_last_is_corrected_and_a_correction_too() -> None:
    console = Console()
    async with served(console) as place:
        # a dumb terminal could not show what stands in a line already
        with terminal(place.home, "chat", env=A_REAL_ONE) as screen:
            await screen.shows("›")
            screen.types("/edit\r")
            await screen.shows("have not sent a message yet")
            screen.types("hello ther\r")
            await screen.shows("you said hello ther")
            screen.types("/edit hello there\r")
            await screen.shows("you said hello there")
            screen.types("/edit\r")
            await screen.shows("/edit hello there")
            screen.types("!\r")
            await screen.shows("you said hello there!")
            await leaves(screen)
    assert console.corrected == ["in_0", "in_0"], "both name the first message"


async def test_help_tells_of_what_the_chat_itself_does() -> None:
    async with served(Console()) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("› ")
            screen.types("/help\r")
            await screen.shows("did /help", "Commands of this chat:", "/send FILE [TEXT] - Send")
            await leaves(screen)


async def test_nothing_is_drawn_while_nothing_happens() -> None:
    console = Console()
    async with served(console) as place:
        with terminal(place.home, "chat", env=A_REAL_ONE) as screen:
            await screen.shows("›")
            await screen.falls_silent()
            await console.happens(A_USER_MSG)
            await screen.shows("edge: thinking")
            await console.happens(AN_ANSWER)
            await screen.falls_silent()
            await leaves(screen)


async def test_ctrl_c_takes_back_a_line_and_leaves_from_an_empty_one() -> None:
    console = Console()
    async with served(console) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("› ")
            screen.types("half a thought")
            await screen.shows("half a thought")
            screen.types("\x03whole\r")
            await screen.shows("you said whole")
            screen.types("\x03")
            assert await screen.ends() == 0
    assert [message.text for message in console.said] == ["you said whole"]


async def test_files_are_sent_and_those_that_come_are_saved(tmp_path: Path) -> None:
    console = Console()
    (tmp_path / "my report.txt").write_text("numbers")
    async with served(console) as place:
        with terminal(place.home, "chat", "--files", str(tmp_path / "in"), columns=300) as screen:
            await screen.shows("› ")
            screen.types(f"/send '{tmp_path}/my report.txt' look at it\r")
            await screen.shows("you said look at it", "sent my report.txt")
            screen.types(f"/send {tmp_path}/nothing\r")
            await screen.shows("Not sent: Cannot read")
            for _ in range(2):
                await console.say("here", files={"../../a\x1b[2J.txt": b"bytes"})
            await screen.shows("a_[2J.txt", "a_[2J (2).txt")
            await console.say("one more", files={"b": b"b"})
            await screen.shows("/in/b")
            await console.say("and one that is gone", files={"c": None})
            await screen.shows("c could not be saved: That file is gone.")
            await leaves(screen)
    assert console.put == {"my report.txt": b"numbers"}
    assert console.named[0] == ["console/1"]
    saved = {path.name: path for path in (tmp_path / "in").iterdir()}
    assert set(saved) == {"_.._a_[2J.txt", "_.._a_[2J (2).txt", "b"}
    first = saved["_.._a_[2J.txt"]
    assert first.read_bytes() == b"bytes" and first.stat().st_mode & 0o777 == 0o600
    assert "\x1b[2J" not in screen.shown


async def in_a_pipe(place: Target, *args: str, said: str = "") -> subprocess.CompletedProcess[str]:
    """Run choirctl as a script does."""

    return await asyncio.to_thread(run_choirctl, *args, home=place.home, given=said)


async def test_in_a_pipe_only_the_answer_is_on_standard_output(tmp_path: Path) -> None:
    console = Console(answers_with={"plan.md": b"# Plan"})
    (tmp_path / "a.txt").write_text("a")
    async with served(console) as place:
        files = ("--send", str(tmp_path / "a.txt"))
        done = await in_a_pipe(place, "chat", *files, "-m", "look **here**")
        assert (done.returncode, done.stdout) == (0, "you said look **here**\n"), done.stderr
        saved = place.download_dir / "plan.md"
        assert f"saved as {saved}" in done.stderr and saved.read_bytes() == b"# Plan"
        done = await in_a_pipe(place, "chat", said="from a pipe\x1b[2J")
        assert done.stdout == "you said from a pipe<U+001B>[2J\n", "a pipe may end at a terminal"
        done = await in_a_pipe(place, "chat", "--send", str(tmp_path), "-m", "x")
        assert done.returncode != 0 and "Cannot read" in done.stderr
    assert console.put == {"a.txt": b"a"}
    assert console.named == [["console/1"], []]
