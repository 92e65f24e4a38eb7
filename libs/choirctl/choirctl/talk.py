"""A conversation on a terminal: the prompt stays usable while the agent works. Called by `chat` and `up`.

What is typed goes out at once, what is heard appears above the prompt; Ctrl-C or Ctrl-D leaves.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.markup import escape

from choir_common.errors import ChoirError
from choir_common.wire.messages import OutboundMessage
from choirctl.control_api import connect
from choirctl.conversation import Conversation, converse
from choirctl.place import Place

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_S = 0.1
LAST_WORDS = timedelta(milliseconds=200)


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
    waiting = Waiting()
    # raw: what rich has coloured passes as it is
    with patch_stdout(raw=True):
        console = Console()
        async with (
            connect(place) as api,
            converse(api, dm) as conversation,
            asyncio.TaskGroup() as tasks,
        ):
            console.print(f"[dim]You talk in the DM `{dm}`. Enter sends, Ctrl-D leaves.[/]")
            printing = tasks.create_task(_print_heard(conversation, waiting, console))
            await _read_lines(conversation, waiting, console, _history(place))
            printing.cancel()
        # the words still in the patched output
        await asyncio.sleep(LAST_WORDS.total_seconds())


async def _print_heard(conversation: Conversation, waiting: Waiting, console: Console) -> None:
    while True:
        message = await conversation.hear()
        waiting.end(message)
        console.print(render(message))


async def _read_lines(
    conversation: Conversation, waiting: Waiting, console: Console, history: History
) -> None:
    session: PromptSession[str] = PromptSession(history=history)
    spinner: Callable[[], str] = lambda: waiting.spinner(conversation.is_connected)  # noqa: E731
    while True:
        try:
            text = await session.prompt_async(
                "› ", rprompt=spinner, refresh_interval=FRAME_S, handle_sigint=False
            )
        except (EOFError, KeyboardInterrupt):
            return
        if text.strip():
            await _say(conversation, text, waiting, console)


async def _say(conversation: Conversation, text: str, waiting: Waiting, console: Console) -> None:
    """Send a line; a refusal is shown, and the conversation goes on."""
    try:
        accepted = await conversation.say(text)
    except ChoirError as error:
        console.print(f"[red]Not sent:[/] {escape(error.message)}")
        return
    if accepted.note:
        console.print(f"[yellow]{escape(accepted.note)}[/]")
    waiting.begin(accepted.inbox_id)


def render(message: OutboundMessage) -> str:
    """Return a message as it stands on the terminal."""
    colour = {"answer": "cyan", "error": "red", "notice": "yellow"}[message.kind]
    return f"[bold {colour}]{escape(message.agent_id)}[/] {escape(message.text)}"


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
