"""Interactive chat on a terminal: the prompt stays usable while the agent works. Called by `chat` and `up`.

Typed lines are sent at once; received messages appear above the prompt, and the activity of the agent's
lanes and jobs below it. Ctrl-C or Ctrl-D leaves.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.markup import escape

from choir_common.errors import BadInput, ChoirError
from choir_common.ids import new_id
from choir_common.visible_text import make_visible
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.operator import CommandView
from choirctl.chat_lines import LOCAL, Correct, Leave, Line, Say, SendFile, ShowPast, understand
from choirctl.control_api import ControlApi, connect
from choirctl.conversation import Conversation, converse
from choirctl.going_on import GoingOn, Waiting
from choirctl.lanes import fitted
from choirctl.parcels import put_file, save_files
from choirctl.past import Past, past_line, read_past
from choirctl.place import Place
from choirctl.printing import counted
from choirctl.prompt import Prompt, Suggestions, terminal_session, typed_before
from choirctl.questions import Decided, Question, Questions, still_open
from choirctl.safe_console import SafeConsole
from choirctl.spoken import heard
from choirctl.views import CORE
from choirctl.watching import Watch

LAST_WORDS_S = 0.2  # how long the patched standard output may take to print
UNSENT_MOST = 100  # lines queued while Choir accepts none
AT_FIRST = 6  # messages of the history that are shown when the chat opens
PAST_WITHIN_S = 5.0  # the history is not worth a longer wait
HELP = "/help"


@dataclass(frozen=True, slots=True)
class Said:
    """The user's latest message, for a correction of it."""

    key: str
    text: str


async def talk_on_terminal(place: Place, dm: str, files: Path, *, stops_all: bool = False) -> None:
    """Chat in `dm` until the user leaves; received files are saved in `files`.

    With `stops_all` the caller stops Choir afterwards, so leaving takes a second Ctrl-C.
    Raises (in a group) NotFound for an unknown DM, Unavailable when nothing answers.
    """
    # raw: prompt_toolkit must not escape the colours that rich has added
    with terminal_session(), patch_stdout(raw=True):
        # rich's highlighter would colour numbers and paths inside messages
        console = SafeConsole(highlight=False)
        async with connect(place) as api, converse(api, dm) as conversation:
            leaving = "Ctrl-C twice or Ctrl-D stops Choir" if stops_all else "Ctrl-D leaves"
            console.print(
                f"[dim]You talk in the DM `{dm}`. Enter sends, {leaving}, /help lists commands.[/]"
            )
            talk = _Talk(api, dm, conversation, console, files, stops_all=stops_all)
            await talk.show_past(AT_FIRST)
            await talk.show_open()
            suggestions = Suggestions(await _commands(api, dm), talk.jobs)
            await talk.go_on(Prompt(typed_before(place), suggestions, talk.before, talk.below))
        # patch_stdout prints from a thread: give it time for the last lines
        await asyncio.sleep(LAST_WORDS_S)


class _Talk:
    """One chat session on one terminal: tasks that read lines, send, print messages and follow the log."""

    def __init__(
        self,
        api: ControlApi,
        dm: str,
        conversation: Conversation,
        console: Console,
        files: Path,
        *,
        stops_all: bool,
    ) -> None:
        self._api = api
        self._dm = dm
        self._conversation = conversation
        self._console = console
        self._files = files
        self._stops_all = stops_all
        self._warned = False
        self._waiting = Waiting()
        self._going_on = GoingOn()
        self._questions = Questions()
        self._watch = Watch(api, dm, self._tell)
        self._past = Past()
        self._typed: asyncio.Queue[Say | SendFile | Correct | Decided] = asyncio.Queue(UNSENT_MOST)
        self._unsent = 0
        self._said: Said | None = None
        self._begun = ""
        """The text with which the next line is prefilled."""

    async def go_on(self, prompt: Prompt) -> None:
        """Run the chat; return when the user has left and every typed line was sent."""
        async with asyncio.TaskGroup() as tasks:
            ending = [
                tasks.create_task(work)
                for work in (self._print_heard(), self._watch.run(), prompt.keep_fresh())
            ]
            sending = tasks.create_task(self._send_typed())
            await self._read_lines(prompt)
            # lines typed before the user left are still sent
            await self._typed.join()
            for task in (sending, *ending):
                task.cancel()

    async def show_past(self, most: int, *, whole: bool = False) -> None:
        """Print up to `most` messages of the history, or nothing if it cannot be read in time."""
        with contextlib.suppress(ChoirError, TimeoutError):
            async with asyncio.timeout(PAST_WITHIN_S):
                agent = await self._watch.holder()
                if agent is None:
                    return
                self._past = await read_past(self._api, agent.agent_id, self._dm, most)
                # these events were printed as history, so the follower must not print them again
                for name, head in self._past.read_to:
                    self._watch.seen.setdefault(name, head)
                for event in self._past.said:
                    self._console.print(past_line(event, agent.agent_id, whole=whole))

    async def show_open(self) -> None:
        """Print the approval requests that are still pending, or nothing if they cannot be read."""
        with contextlib.suppress(ChoirError):
            for message in still_open(await self._conversation.recent()):
                self._show(message)

    def jobs(self) -> list[str]:
        """Return the names of the running core jobs, for completion."""
        lanes = self._watch.lanes.busy
        return [lane.removeprefix(CORE) for lane in lanes if lane.startswith(CORE)]

    def before(self) -> str:
        """Return the prompt."""
        return f"{self._questions.prompt()}› "

    def below(self, width: int) -> Sequence[str]:
        """Return the lines below the prompt: the busy lanes, or that the connection is lost."""
        if not self._conversation.is_connected:
            waiting = f"; {counted(self._unsent, 'line')} to send" if self._unsent else ""
            return [fitted(f"connection lost, trying again{waiting}", width)]
        now = time.monotonic()
        lanes = self._watch.lanes
        shown = [*lanes.lines(now, width)]
        # lanes from the log are more precise than the channel's typing indicator
        if not shown or self._going_on.cards:
            going_on = self._going_on.lines(now, lanes.jobs)
            shown += [fitted(line, width) for line in going_on]
        return shown or [self._waiting.spinner()]

    async def _read_lines(self, prompt: Prompt) -> None:
        with prompt.kept_raw():
            while (typed := await prompt.line(self._begun)) is not None:
                self._begun = ""
                if typed.interrupted:
                    if self._leaves_now():
                        return
                    continue
                self._warned = False
                try:
                    line = self._questions.understand(typed.text, typed.begun_at)
                    if not await self._do(line or understand(typed.text)):
                        return
                except ChoirError as error:
                    self._complain(error)

    def _leaves_now(self) -> bool:
        """Return whether Ctrl-C in an empty line leaves; if that stops Choir, the first one only warns."""
        if not self._stops_all or self._warned:
            return True
        self._warned = True
        self._console.print("[yellow]Ctrl-C again stops Choir and all its agents.[/]")
        return False

    async def _do(self, line: Line | Decided) -> bool:
        """Execute a line; return False if it ends the chat."""
        match line:
            case Leave():
                return False
            case ShowPast(most):
                await self.show_past(most, whole=True)
            case Say(text) if not text.strip():
                pass
            case Correct("") if self._unsent:
                raise BadInput("What you said last is still on its way.")
            case Correct(""):
                self._begun = f"/edit {self._last().text}"
            case Say() | SendFile() | Correct() | Decided():
                self._unsent += 1
                await self._typed.put(line)
        return True

    def _last(self) -> Said:
        if self._said is None:
            raise BadInput("You have said nothing here yet that could be corrected.")
        return self._said

    async def _send_typed(self) -> None:
        while True:
            line = await self._typed.get()
            try:
                match line:
                    case Say(text):
                        await self._say(text)
                    case SendFile(path, text):
                        put = await put_file(self._api, self._dm, path)
                        await self._say(text, put.ref)
                        self._console.print(f"[dim]sent {escape(make_visible(put.name))}[/]")
                    case Correct(text):
                        await self._say(text, edits=self._last().key)
                    case Decided(question, data):
                        await self._decide(question, data)
            except ChoirError as error:
                # show the error; the chat continues
                self._complain(error, "Not sent: ")
            finally:
                self._unsent -= 1
                self._typed.task_done()

    async def _say(self, text: str, *files: str, edits: str | None = None) -> None:
        key = new_id("cli")
        accepted = await self._conversation.say(text, files, key=key, edits=edits)
        if accepted.note:
            self._console.print(f"[yellow]{escape(make_visible(accepted.note))}[/]")
        if accepted.command is None:
            # a correction of a correction also names the original message
            self._said = Said(edits or key, text)
            self._waiting.begin(accepted.inbox_id)
        elif accepted.command == HELP:
            own = "\n".join(" - ".join(words) for words in LOCAL.values())
            self._console.print(f"[yellow]In this chat also:\n{escape(own)}[/]")

    async def _decide(self, question: Question, data: str) -> None:
        pressed = await self._conversation.press(question.message, data)
        self._questions.close(question)
        self._console.print(f"[yellow]{escape(make_visible(pressed.answer))}[/]")

    async def _print_heard(self) -> None:
        while True:
            what = await self._conversation.hear()
            if isinstance(what, OutboundMessage):
                await self._take(what)
                continue
            done = self._going_on.take(what, time.monotonic(), self._watch.lanes.jobs)
            if done:
                self._console.print(f"[dim]{escape(done)}[/]")

    async def _take(self, message: OutboundMessage) -> None:
        self._waiting.end(message)
        # a message delivered while the history was read may already be on the screen
        if not self._past.holds(message.session_id, message.rev):
            self._show(message)
        for line in await save_files(self._api, self._dm, message, self._files):
            # soft-wrapped, so that the path can be copied as one line
            self._console.print(f"[bold green]{escape(line)}[/]", soft_wrap=True)

    def _show(self, message: OutboundMessage) -> None:
        self._console.print(heard(message))
        question = self._questions.hear(message, time.monotonic())
        if question is not None:
            number = question.number
            self._console.print(f"[bold]Request {number}: y approves, n rejects (y {number}).[/]")

    async def _tell(self, line: str) -> None:
        self._console.print(f"[dim magenta]· {escape(line)}[/]")

    def _complain(self, error: ChoirError, what: str = "") -> None:
        self._console.print(f"[red]{what}{escape(make_visible(error.message))}[/]")


async def _commands(api: ControlApi, dm: str) -> list[CommandView]:
    """Return the commands of this conversation; none if they cannot be read."""
    try:
        return await api.commands(dm)
    except ChoirError:
        return []
