"""A conversation on a terminal: the prompt stays usable while the agent works. Called by `chat` and `up`.

What is typed goes out at once, what is heard appears above the prompt; Ctrl-C or Ctrl-D leaves.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import CompleteStyle
from rich.console import Console
from rich.markup import escape

from choir_common.errors import ChoirError
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import OutboundMessage
from choirctl.control_api import ControlApi, connect
from choirctl.conversation import Conversation, converse
from choirctl.place import Place

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_S = 0.1
# a report is of a job, and comes whenever that is done
STYLES: Mapping[ReplyKind, tuple[str, str]] = {
    "answer": ("cyan", ""),
    "error": ("red", ""),
    "notice": ("yellow", ""),
    "report": ("magenta", " reports:"),
}
LAST_WORDS_S = 0.2  # how long the patched output may take to print
UNSENT_MOST = 100  # lines typed ahead of a Choir that does not take them


@dataclass(slots=True)
class Waiting:
    """The messages that have no answer yet: since when, by inbox id."""

    since: dict[str, float] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    """Answers that came before the message's own acknowledgement."""

    def begin(self, inbox_id: str) -> None:
        """A message went out."""
        if inbox_id not in self.closed:
            self.since[inbox_id] = time.monotonic()

    def end(self, message: OutboundMessage) -> None:
        """Something was heard; an answer closes what it answers."""
        if message.answers is not None and message.kind != "notice":
            self.closed.add(message.answers)
            self.since.pop(message.answers, None)

    def spinner(self, is_connected: bool) -> str:
        """Return what stands at the right of the prompt now."""
        now = time.monotonic()
        if not is_connected:
            return "connection lost, trying again"
        if not self.since:
            return ""
        frame = FRAMES[int(now / FRAME_S) % len(FRAMES)]
        return f"{frame} thinking, {now - min(self.since.values()):.0f} s"


async def talk_on_terminal(place: Place, dm: str) -> None:
    """Talk in `dm` until the user leaves.

    Raises (in a group) NotFound for an unknown DM, Unavailable when nothing answers.
    """
    # raw: what rich has coloured passes as it is
    with patch_stdout(raw=True):
        console = Console()
        async with connect(place) as api, converse(api, dm) as conversation:
            console.print(
                f"[dim]You talk in the DM `{dm}`. Enter sends, Ctrl-D leaves, /help lists commands.[/]"
            )
            session = _make_session(_history(place), await _command_names(api, dm))
            await _Talk(conversation, console, Waiting()).go_on(session)
        # the words still in the patched output
        await asyncio.sleep(LAST_WORDS_S)


class _RawInput(Vt100Input):
    """A terminal that stays raw between two prompts and while something is printed.

    In between, the line discipline would eat a Ctrl-D and turn a Ctrl-C into a signal.
    """

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True, slots=True)
class _Talk:
    """One conversation at one terminal: three tasks that read, send and print."""

    conversation: Conversation
    console: Console
    waiting: Waiting
    typed: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue(UNSENT_MOST))

    async def go_on(self, session: PromptSession[str]) -> None:
        """Return when the user has left and all that was typed is sent."""
        async with asyncio.TaskGroup() as tasks:
            printing = tasks.create_task(self._print_heard())
            sending = tasks.create_task(self._send_typed())
            await self._read_lines(session)
            await self.typed.join()
            sending.cancel()
            printing.cancel()

    async def _read_lines(self, session: PromptSession[str]) -> None:
        with session.app.input.raw_mode():
            while True:
                try:
                    text = await session.prompt_async(
                        "› ", rprompt=self._spinner, refresh_interval=FRAME_S, handle_sigint=False
                    )
                except (EOFError, KeyboardInterrupt):
                    return
                if text.strip():
                    await self.typed.put(text)

    async def _send_typed(self) -> None:
        while True:
            text = await self.typed.get()
            try:
                await self._say(text)
            finally:
                self.typed.task_done()

    async def _say(self, text: str) -> None:
        """Send a line; a refusal is shown, and the conversation goes on."""
        try:
            accepted = await self.conversation.say(text)
        except ChoirError as error:
            self.console.print(f"[red]Not sent:[/] {escape(error.message)}")
            return
        if accepted.note:
            self.console.print(f"[yellow]{escape(accepted.note)}[/]")
        if accepted.command is None:
            self.waiting.begin(accepted.inbox_id)

    async def _print_heard(self) -> None:
        while True:
            message = await self.conversation.hear()
            self.waiting.end(message)
            self.console.print(render(message))

    def _spinner(self) -> str:
        return self.waiting.spinner(self.conversation.is_connected)


def render(message: OutboundMessage) -> str:
    """Return a message as it stands on the terminal."""
    colour, does = STYLES[message.kind]
    return f"[bold {colour}]{escape(message.agent_id)}{does}[/] {escape(message.text)}"


def _make_session(history: History, commands: Sequence[str]) -> PromptSession[str]:
    """Return the prompt; Tab completes a command at the beginning of a line."""
    return PromptSession(
        history=history,
        input=_RawInput(sys.stdin),
        completer=WordCompleter(list(commands), sentence=True),
        # a menu would keep lines of the screen free for itself
        complete_style=CompleteStyle.READLINE_LIKE,
        complete_while_typing=False,
    )


async def _command_names(api: ControlApi, dm: str) -> list[str]:
    """Return what Tab completes in this conversation; nothing if it cannot be told."""
    try:
        return sorted({command.name for command in await api.commands(dm)})
    except ChoirError:
        return []


def _history(place: Place) -> History:
    """Return what was typed before; it is kept beside the state, for its owner only."""
    path: Path = place.home / "chat_history"
    if not place.home.is_dir():
        return InMemoryHistory()
    try:
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
