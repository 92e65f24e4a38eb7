"""The input line of the chat: history, Tab completion and the status lines below it. Created by `talk`."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import AppSession, create_app_session, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from choir_common.visible_text import make_visible
from choir_common.wire.operator import CommandView
from choirctl.chat_lines import LOCAL, quoted, unquoted
from choirctl.lanes import fitted
from choirctl.place import Place
from choirctl.terminal import below

FRAME_S = 0.1
SEND = "/send "
CANCEL = "/cancel "
# grey text instead of a reversed bar: the status is not part of the conversation
PLAIN_BAR = Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack"})


def terminal_session() -> AbstractContextManager[AppSession]:
    """Return a prompt_toolkit session that writes to the terminal directly, bypassing `SafeStream`."""
    return create_app_session(output=create_output(stdout=below(sys.stdout)))


class RawInput(Vt100Input):
    """Terminal input that stays in raw mode between two prompts and during output.

    In cooked mode the terminal driver would consume a Ctrl-D and turn a Ctrl-C into a signal.
    """

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()


class Suggestions(Completer):
    """Completes the commands of the conversation, the files to send, and the jobs to cancel."""

    def __init__(self, commands: Sequence[CommandView], jobs: Callable[[], Iterable[str]]) -> None:
        typed = {it.name: (it.usage, it.summary) for it in commands if it.name.startswith("/")}
        self._commands = {**typed, **LOCAL}
        self._jobs = jobs
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions for the text before the cursor."""
        text = document.text_before_cursor
        if text.startswith(SEND):
            yield from self._files(text.removeprefix(SEND), event)
        elif text.startswith(CANCEL):
            yield from _begun_with(text.removeprefix(CANCEL), self._jobs())
        elif text.startswith("/"):
            yield from _begun_with(text, self._commands)

    def _files(self, typed: str, event: CompleteEvent) -> Iterator[Completion]:
        """Yield completions for a file name.

        Each replaces the whole name, quoted for `/send`, because the typed part may be half quoted.
        """
        path = unquoted(typed)
        if path is None:
            return
        for found in self._paths.get_completions(Document(path), event):
            name = path[: len(path) + found.start_position] + found.text
            yield Completion(
                quoted(name), -len(typed), display=found.display, display_meta=found.display_meta
            )

    def hint(self, text: str) -> str:
        """Return the usage of the command that is being typed; empty if it matches none."""
        begun = text.split(" ")
        for words in (2, 1):
            known = self._commands.get(" ".join(begun[:words]))
            if known is not None:
                return make_visible(": ".join(known), keep="")
        return ""


@dataclass(frozen=True, slots=True)
class Typed:
    """A typed line, and when its first character was typed (monotonic seconds)."""

    text: str
    begun_at: float
    interrupted: bool = False
    """True if Ctrl-C was pressed in an empty line; `text` is empty then."""


class Prompt:
    """The input line at the bottom of the terminal."""

    def __init__(
        self,
        history: History,
        suggestions: Suggestions,
        before: Callable[[], str],
        below: Callable[[int], Sequence[str]],
    ) -> None:
        """Create the line; `before` returns its prompt, `below` the status lines for a terminal width."""
        self._suggestions = suggestions
        self._below = below
        self._before = before
        self._begun_at: float | None = None
        self._session: PromptSession[str] = PromptSession(
            history=history,
            input=RawInput(sys.stdin),
            completer=suggestions,
            bottom_toolbar=self._bar,
            style=PLAIN_BAR,
            # a menu would keep lines of the screen free for itself
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            key_bindings=_keys(),
        )
        self._session.default_buffer.on_text_changed += self._note

    def kept_raw(self) -> AbstractContextManager[None]:
        """Return a context manager that keeps the terminal in raw mode."""
        return self._session.app.input.raw_mode()

    async def keep_fresh(self) -> None:
        """Redraw the line whenever the text around it has changed, until cancelled.

        Redrawing at fixed intervals would make the cursor flicker and send bytes while nothing changes.
        """
        shown: tuple[str, str] | None = None
        while True:
            await asyncio.sleep(FRAME_S)
            app = self._session.app
            if app.is_running:
                around = (self._before(), self._lines(app.output.get_size().columns))
                if around != shown:
                    shown = around
                    app.invalidate()

    async def line(self, begun: str = "") -> Typed | None:
        """Return the next line, prefilled with `begun`; None after Ctrl-D in an empty line."""
        self._begun_at = None
        try:
            text = await self._session.prompt_async(
                self._before, default=begun, handle_sigint=False
            )
        except EOFError:
            return None
        except KeyboardInterrupt:
            return Typed("", time.monotonic(), interrupted=True)
        return Typed(text, time.monotonic() if self._begun_at is None else self._begun_at)

    def _note(self, buffer: Buffer) -> None:
        if not buffer.text:
            self._begun_at = None
        elif self._begun_at is None:
            self._begun_at = time.monotonic()

    def _bar(self) -> str:
        app = get_app()
        width = app.output.get_size().columns
        hint = self._suggestions.hint(app.current_buffer.text)
        return "\n".join([*([fitted(hint, width)] if hint else []), self._lines(width)])

    def _lines(self, width: int) -> str:
        return make_visible("\n".join(self._below(width)))


def _keys() -> KeyBindings:
    """Return key bindings: Ctrl-C clears a line with text, and interrupts in an empty one."""
    keys = KeyBindings()

    @keys.add("c-c", eager=True, filter=Condition(lambda: bool(get_app().current_buffer.text)))
    def take_back(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    return keys


def typed_before(place: Place) -> History:
    """Return the input history; stored in the state directory, readable only by its owner."""
    path: Path = place.home / "chat_history"
    if not place.home.is_dir():
        return InMemoryHistory()
    try:
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _begun_with(text: str, words: Iterable[str]) -> Iterator[Completion]:
    for word in sorted(words):
        if word.startswith(text):
            yield Completion(word, start_position=-len(text), display=make_visible(word))
