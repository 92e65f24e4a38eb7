"""The interactive chat, on a real (pseudo) terminal."""

import asyncio
import codecs
import contextlib
import fcntl
import functools
import os
import pty
import select
import signal
import struct
import tempfile
import termios
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from choir_local.home import Home
from choir_local.stack_state import is_locked
from tests.journey.phone import Prepare
from tests.service.choirctl.console_stand_in import Console, served
from tests.support.ports import free_port
from tests.support.preloaded_choirctl import (
    ForkedCommand,
    run_choirctl,
    start_on_terminal,
)
from tests.support.screen import EmulatedScreen

WITHIN_S = 200
PLAIN = {"TERM": "dumb", "NO_COLOR": "1"}
LINES = 40


@dataclass
class Terminal:
    """A terminal with choirctl in it. `shown` is all that was written, `screen` what a person sees of it."""

    process: ForkedCommand
    fd: int
    screen: EmulatedScreen
    shown: str = ""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=functools.partial(codecs.getincrementaldecoder("utf-8"), "replace")
    )

    async def shows(self, *texts: str, within_s: float = WITHIN_S) -> None:
        """Wait until each of `texts` has appeared, in whatever order."""
        missing = set(texts)
        try:
            async with asyncio.timeout(within_s):
                while missing := {text for text in missing if not self._has_shown(text)}:
                    await asyncio.to_thread(self._read)
        except TimeoutError:
            raise AssertionError(f"not shown: {missing} in {self.shown!r}") from None

    def _has_shown(self, text: str) -> bool:
        # the screen wraps lines, and the output lacks what stood there already
        return text in self.shown or text in self.screen.text

    async def falls_silent(self, for_s: float = 1.0) -> None:
        """Wait until nothing has been written for so long."""
        async with asyncio.timeout(WITHIN_S):
            while await asyncio.to_thread(self._is_written, for_s):
                await asyncio.to_thread(self._read)

    def _is_written(self, within_s: float) -> bool:
        return bool(select.select([self.fd], [], [], within_s)[0])

    def types(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    async def ends(self) -> int:
        """Wait until the program has left; return its exit code."""
        async with asyncio.timeout(WITHIN_S):
            with contextlib.suppress(OSError):
                while True:
                    await asyncio.to_thread(self._read)
            return await asyncio.to_thread(self.process.wait)

    def _read(self) -> None:
        block = os.read(self.fd, 65536)
        self.screen.feed(block)
        self.shown += self._decoder.decode(block)


@contextlib.contextmanager
def terminal(
    home: Path, *args: str, env: Mapping[str, str] | None = None, columns: int = 80
) -> Iterator[Terminal]:
    """Run choirctl in a terminal of its own: a dumb one, unless `env` says otherwise.

    The command runs in a fork of a process with choirctl loaded.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    full_env = {**os.environ, "CHOIR_HOME": str(home), **(PLAIN if env is None else env)}
    process = start_on_terminal(args, full_env, theirs)
    os.close(theirs)
    try:
        yield Terminal(process, ours, EmulatedScreen(columns=columns, lines=LINES, fd=ours))
    finally:
        process.kill()
        process.wait()
        os.close(ours)


async def test_what_is_typed_is_said_and_what_is_heard_appears() -> None:
    async with served(Console()) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("Ctrl-D leaves", "› ")
            screen.types("hello\r")
            await screen.shows("you said hello")
            screen.types("again\r")
            await screen.shows("you said again")
            screen.types("\x04")
            assert await screen.ends() == 0
        assert (place.home / "chat_history").stat().st_mode & 0o777 == 0o600


async def test_what_comes_by_itself_appears_above_the_prompt() -> None:
    console = Console(cut_after=2)
    async with served(console) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("Ctrl-D leaves")
            for number in range(4):
                await console.say(f"news {number}")
                await screen.shows(f"news {number}")
            screen.types("\x03")
            assert await screen.ends() == 0


async def test_a_command_is_obeyed_and_nothing_is_waited_for() -> None:
    console = Console()
    async with served(console) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("/help lists commands", "› ")
            screen.types("/jo\t\r")
            await screen.shows("did /jobs")
            await asyncio.sleep(0.5)
            assert "thinking" not in screen.shown
            screen.types("\x04")
            assert await screen.ends() == 0
    assert console.said == []


async def test_a_file_whose_name_has_a_blank_is_sent_after_tab() -> None:
    console = Console()
    async with served(console) as place:
        (place.home / "my notes.txt").write_text("oolong")
        with terminal(place.home, "chat") as screen:
            await screen.shows("/help lists commands", "› ")
            screen.types(f"/send {place.home}/my\t\r")
            await screen.shows("sent my notes.txt")
            screen.types("\x04")
            assert await screen.ends() == 0
    assert list(console.put) == ["my notes.txt"]


async def test_a_report_is_headed_as_one() -> None:
    console = Console()
    async with served(console) as place:
        with terminal(place.home, "chat") as screen:
            await screen.shows("Ctrl-D leaves")
            await console.say("the notes are read", kind="report")
            await screen.shows("main reports: the notes are read")
            screen.types("\x04")
            assert await screen.ends() == 0


async def test_up_on_a_terminal_opens_a_chat_and_ctrl_c_twice_stops_everything() -> None:
    with tempfile.TemporaryDirectory(prefix="ch-") as home:
        with terminal(Path(home), "up", "--port", str(free_port())) as screen:
            await screen.shows("Ctrl-C twice stops it", "› ", within_s=90)
            screen.types("hello\r")
            await screen.shows("Hello! I am Choir")
            with terminal(Path(home), "chat") as second:
                await second.shows("Ctrl-D leaves", "› ", within_s=90)
                second.types("who are you?\r")
                await second.shows("Hello! I am Choir")
                second.types("\x04")
                assert await second.ends() == 0
            screen.types("\x03")
            await screen.shows("Ctrl-C again stops Choir")
            assert is_locked(Home(Path(home)))
            screen.types("\x03")
            await screen.shows("Choir has stopped.")
            assert await screen.ends() == 0
        assert not is_locked(Home(Path(home)))


@pytest.mark.nightly  # tests/unit/choirctl chooses the conversation of a chat
async def test_up_stays_without_a_chat_when_the_only_agent_talks_on_telegram() -> None:
    with tempfile.TemporaryDirectory(prefix="choir ") as folder:
        home = Path(folder) / "h"
        await asyncio.to_thread(_talk_on_telegram, home)
        port = str(free_port())
        with terminal(
            home, "up", "--port", port, env=PLAIN | {"CHOIR_TLS": "on"}, columns=300
        ) as screen:
            nobody = "No agent talks on this terminal: main talks on Telegram (DM phone)"
            await screen.shows(nobody, "Ctrl-C stops it", within_s=120)
            assert "chat -m" not in screen.shown
            assert f"--home '{home}' status" in screen.shown
            assert f"https://127.0.0.1:{port} with" in screen.shown
            words = ("chat", "--agent", "main", "-m", "hi")
            asked = await asyncio.to_thread(run_choirctl, *words, home=home)
            assert asked.returncode == 5
            assert "main talks on Telegram (DM phone), not on this terminal" in " ".join(
                asked.stderr.split()
            )
            assert is_locked(Home(home))
            os.kill(screen.process.pid, signal.SIGINT)
            await screen.shows("Choir has stopped.")
            assert await screen.ends() == 0


def _talk_on_telegram(home: Path) -> None:
    """Make a home whose only agent talks through a bot, whose server cannot be reached."""
    assert run_choirctl("init", home=home).returncode == 0
    Prepare(f"http://127.0.0.1:{free_port()}")(home)
