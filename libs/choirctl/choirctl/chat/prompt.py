"""The input line of the chat: history, Tab completion and the status lines below it. Created by
`terminal_chat`."""

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import Protocol, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from choir_common.escape_text import escape_hidden
from choir_common.target import Target
from choir_common.wire.operator import CommandView
from choirctl.chat.lane_activity import truncate_to_width
from choirctl.chat.line_parser import LOCAL_COMMANDS, quote_name, unquote_partial_name
from choirctl.output.language import tr
from choirctl.output.terminal import unwrap_stream

REDRAW_INTERVAL_S = 0.1
SEND = "/send "
CANCEL = "/cancel "
# grey text instead of a reversed bar: the status is not part of the conversation
STATUS_STYLE = Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack"})


def unwrapped_stdout() -> AbstractContextManager[TextIO]:
    """Return a context in which prompt_toolkit writes to the terminal directly, bypassing `SafeStream`.

    Not by `create_app_session`: the thread of `patch_stdout` does not have its session, and prints over the
    prompt.
    """
    return redirect_stdout(unwrap_stream(sys.stdout))


class RawTerminalInput(Vt100Input):
    """Terminal input that stays in raw mode between two prompts and during output.

    In cooked mode the terminal driver would consume a Ctrl-D and turn a Ctrl-C into a signal.
    """

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()


class ChatState(Protocol):
    """State of the chat around the input line."""

    def running_jobs(self) -> Iterable[str]:
        """Return the names of the running core jobs."""
        ...

    def prompt_text(self) -> str:
        """Return the prompt."""
        ...

    def keeps_history(self) -> bool:
        """Return whether typed lines may be stored in the history file."""
        ...

    def status_lines(self, width: int) -> Sequence[str]:
        """Return the lines below the prompt, for a terminal width."""
        ...


class ChatHistory(FileHistory):
    """Input history in a file, without what is typed incognito; that stays until the chat is left."""

    def __init__(self, filename: str, chat: ChatState) -> None:
        self._chat = chat
        super().__init__(filename)

    def store_string(self, string: str) -> None:
        if self._chat.keeps_history():
            super().store_string(string)


class ChatCompleter(Completer):
    """Completes the commands of the conversation, the files to send, and the jobs to cancel."""

    def __init__(self, commands: Sequence[CommandView], chat: ChatState) -> None:
        typed = {it.name: (it.usage, it.summary) for it in commands if it.name.startswith("/")}
        self._commands = {**typed, **LOCAL_COMMANDS}
        self._chat = chat
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions for the text before the cursor."""
        text = document.text_before_cursor
        if text.startswith(SEND):
            yield from self._files(text.removeprefix(SEND), event)
        elif text.startswith(CANCEL):
            yield from _completions(text.removeprefix(CANCEL), self._chat.running_jobs())
        elif text.startswith("/"):
            yield from _completions(text, self._commands)

    def _files(self, typed: str, event: CompleteEvent) -> Iterator[Completion]:
        """Yield completions for a file name.

        Each replaces the whole name, quoted for `/send`, because the typed part may be half quoted.
        """
        path = unquote_partial_name(typed)
        if path is None:
            return
        for completion in self._paths.get_completions(Document(path), event):
            name = path[: len(path) + completion.start_position] + completion.text
            yield Completion(
                quote_name(name),
                -len(typed),
                display=completion.display,
                display_meta=completion.display_meta,
            )

    def usage_hint(self, text: str) -> str:
        """Return the usage of the command that is being typed; empty if it matches none."""
        typed = text.split(" ")
        for count in (2, 1):
            command = self._commands.get(" ".join(typed[:count]))
            if command is not None:
                return escape_hidden(": ".join(map(tr, command)), keep="")
        return ""


@dataclass(frozen=True, slots=True)
class TypedLine:
    """A typed line, and when its first character was typed (monotonic seconds)."""

    text: str
    started_at: float
    interrupted: bool = False
    """True if Ctrl-C was pressed in an empty line; `text` is empty then."""


class ChatPrompt:
    """The input line at the bottom of the terminal."""

    def __init__(self, history: History, completer: ChatCompleter, chat: ChatState) -> None:
        self._completer = completer
        self._chat = chat
        self._started_at: float | None = None
        self._session: PromptSession[str] = PromptSession(
            history=history,
            input=RawTerminalInput(sys.stdin),
            completer=completer,
            bottom_toolbar=self._bar,
            style=STATUS_STYLE,
            # a menu would keep lines of the screen free for itself
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            key_bindings=_keys(),
        )
        self._session.default_buffer.on_text_changed += self._record_start

    def raw_mode(self) -> AbstractContextManager[None]:
        """Return a context manager that keeps the terminal in raw mode."""
        return self._session.app.input.raw_mode()

    async def redraw_on_change(self) -> None:
        """Redraw the line whenever the text around it has changed, until cancelled.

        Redrawing at fixed intervals would make the cursor flicker and send bytes while nothing changes.
        """
        previous: tuple[str, str] | None = None
        while True:
            await asyncio.sleep(REDRAW_INTERVAL_S)
            app = self._session.app
            if app.is_running:
                current = (self._chat.prompt_text(), self._lines(app.output.get_size().columns))
                if current != previous:
                    previous = current
                    app.invalidate()

    async def read_line(self, prefill: str = "") -> TypedLine | None:
        """Return the next line, prefilled with `prefill`; None after Ctrl-D in an empty line."""
        self._started_at = None
        try:
            text = await self._session.prompt_async(
                self._chat.prompt_text, default=prefill, handle_sigint=False
            )
        except EOFError:
            return None
        except KeyboardInterrupt:
            return TypedLine("", time.monotonic(), interrupted=True)
        return TypedLine(text, time.monotonic() if self._started_at is None else self._started_at)

    def _record_start(self, buffer: Buffer) -> None:
        if not buffer.text:
            self._started_at = None
        elif self._started_at is None:
            self._started_at = time.monotonic()

    def _bar(self) -> str:
        app = get_app()
        width = app.output.get_size().columns
        hint = self._completer.usage_hint(app.current_buffer.text)
        return "\n".join([*([truncate_to_width(hint, width)] if hint else []), self._lines(width)])

    def _lines(self, width: int) -> str:
        return escape_hidden("\n".join(map(tr, self._chat.status_lines(width))))


def _keys() -> KeyBindings:
    """Return key bindings: Ctrl-C clears a line with text, and interrupts in an empty one."""
    keys = KeyBindings()

    @keys.add("c-c", eager=True, filter=Condition(lambda: bool(get_app().current_buffer.text)))
    def take_back(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    return keys


def open_history(place: Target, chat: ChatState) -> History:
    """Return the input history; stored in the state directory, readable only by its owner."""
    path = place.chat_history
    if not place.home.is_dir():
        return InMemoryHistory()
    try:
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return ChatHistory(str(path), chat)


def _completions(text: str, words: Iterable[str]) -> Iterator[Completion]:
    for word in sorted(words):
        if word.startswith(text):
            yield Completion(word, start_position=-len(text), display=escape_hidden(word))
