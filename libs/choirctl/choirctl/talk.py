"""A conversation on a terminal: the prompt stays usable while the agent works. Called by `chat` and `up`.

What is typed goes out at once, what is heard appears above the prompt, and below it what the agent's
lanes and jobs do; Ctrl-C or Ctrl-D leaves.
"""

import asyncio
import contextlib
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.markup import escape

from choir_common.errors import ChoirError
from choir_common.wire.activity import Card, Idle, Typing
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.operator import CommandView
from choirctl.chat_lines import Leave, Say, SendFile, ShowPast, understand
from choirctl.control_api import ControlApi, connect
from choirctl.conversation import Conversation, converse
from choirctl.lanes import fitted
from choirctl.parcels import put_file, save_files
from choirctl.past import Past, past_line, read_past
from choirctl.place import Place
from choirctl.prompt import FRAME_S, Prompt, Suggestions, typed_before
from choirctl.questions import Decided, Question, Questions, still_open
from choirctl.spoken import heard, one_line, safe
from choirctl.views import CORE
from choirctl.watching import Watch

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LAST_WORDS_S = 0.2  # how long the patched output may take to print
UNSENT_MOST = 100  # lines typed ahead of a Choir that does not take them
AT_FIRST = 6  # of what was said before
PAST_WITHIN_S = 5.0  # what was said before is not worth a longer wait
LONGEST_CARD = 300


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

    def spinner(self) -> str:
        """Return for how long an answer has been waited for."""
        if not self.since:
            return ""
        now = time.monotonic()
        frame = FRAMES[int(now / FRAME_S) % len(FRAMES)]
        return f"{frame} thinking, {now - min(self.since.values()):.0f} s"


@dataclass(slots=True)
class GoingOn:
    """What the channel shows of what goes on: open cards, and until when somebody types."""

    cards: dict[str, Card] = field(default_factory=dict)
    typing_until: float = 0.0

    def take(self, what: Card | Typing | Idle, now: float, told: Collection[str]) -> str | None:
        """Take up what goes on; return the words of a card that is done, to be kept on the screen."""
        match what:
            case Typing(lasts_s=lasts):
                self.typing_until = now + lasts
            case Idle():
                self.typing_until = 0.0
            case Card(done=False) as card:
                self.cards[card.card_id] = card
            case Card() as card:
                self.cards.pop(card.card_id, None)
                return None if card.card_id in told else safe(card.text)
        return None

    def lines(self, now: float, told: Collection[str]) -> list[str]:
        """Return a line for each card that is not `told` elsewhere, or that somebody types."""
        open_ones = [card for card in self.cards.values() if card.card_id not in told]
        cards = [one_line(card.text, LONGEST_CARD) for card in open_ones]
        return cards or (["typing"] if now < self.typing_until else [])


async def talk_on_terminal(place: Place, dm: str, files: Path) -> None:
    """Talk in `dm` until the user leaves; received files are saved in `files`.

    Raises (in a group) NotFound for an unknown DM, Unavailable when nothing answers.
    """
    # raw: what rich has coloured passes as it is
    with patch_stdout(raw=True):
        console = Console()
        async with connect(place) as api, converse(api, dm) as conversation:
            console.print(
                f"[dim]You talk in the DM `{dm}`. Enter sends, Ctrl-D leaves, /help lists commands.[/]"
            )
            talk = _Talk(api, dm, conversation, console, files)
            await talk.show_past(AT_FIRST)
            await talk.show_open()
            suggestions = Suggestions(await _commands(api, dm), talk.jobs)
            await talk.go_on(Prompt(typed_before(place), suggestions, talk.before, talk.below))
        # the words still in the patched output
        await asyncio.sleep(LAST_WORDS_S)


class _Talk:
    """One conversation at one terminal: tasks that read, send, print and watch."""

    def __init__(
        self,
        api: ControlApi,
        dm: str,
        conversation: Conversation,
        console: Console,
        files: Path,
    ) -> None:
        self._api = api
        self._dm = dm
        self._conversation = conversation
        self._console = console
        self._files = files
        self._waiting = Waiting()
        self._going_on = GoingOn()
        self._questions = Questions()
        self._watch = Watch(api, dm, self._tell)
        self._past = Past()
        self._typed: asyncio.Queue[Say | SendFile | Decided] = asyncio.Queue(UNSENT_MOST)

    async def go_on(self, prompt: Prompt) -> None:
        """Return when the user has left and all that was typed is sent."""
        async with asyncio.TaskGroup() as tasks:
            ending = [tasks.create_task(self._print_heard()), tasks.create_task(self._watch.run())]
            sending = tasks.create_task(self._send_typed())
            await self._read_lines(prompt)
            await self._typed.join()
            for task in (sending, *ending):
                task.cancel()

    async def show_past(self, most: int, *, whole: bool = False) -> None:
        """Print what was said last, if it can be told."""
        with contextlib.suppress(ChoirError, TimeoutError):
            async with asyncio.timeout(PAST_WITHIN_S):
                agent = await self._watch.holder()
                if agent is None:
                    return
                self._past = await read_past(self._api, agent.agent_id, self._dm, most)
                for name, head in self._past.read_to:
                    self._watch.seen.setdefault(name, head)
                for event in self._past.said:
                    self._console.print(past_line(event, agent.agent_id, whole=whole))

    async def show_open(self) -> None:
        """Print the requests that wait for a decision since before, if they can be told."""
        with contextlib.suppress(ChoirError):
            for message in still_open(await self._conversation.recent()):
                self._show(message)

    def jobs(self) -> list[str]:
        """Return the names of the jobs at work."""
        lanes = self._watch.lanes.busy
        return [lane.removeprefix(CORE) for lane in lanes if lane.startswith(CORE)]

    def before(self) -> str:
        """Return what stands before the line that is typed."""
        return f"{self._questions.prompt()}› "

    def below(self, width: int) -> Sequence[str]:
        """Return what stands below the prompt: the lanes at work, or that nobody hears."""
        if not self._conversation.is_connected:
            return ["connection lost, trying again"]
        now = time.monotonic()
        lanes = self._watch.lanes
        shown = [*lanes.lines(now, width)]
        if not shown or self._going_on.cards:
            going_on = self._going_on.lines(now, lanes.jobs)
            shown += [fitted(line, width) for line in going_on]
        return shown or [self._waiting.spinner()]

    async def _read_lines(self, prompt: Prompt) -> None:
        with prompt.kept_raw():
            while (typed := await prompt.line()) is not None:
                try:
                    line = self._questions.understand(typed.text, typed.begun_at)
                    if not await self._do(line or understand(typed.text)):
                        return
                except ChoirError as error:
                    self._complain(error)

    async def _do(self, line: Say | SendFile | ShowPast | Leave | Decided) -> bool:
        """Do what a line asks for; False when it asks for the end."""
        match line:
            case Leave():
                return False
            case ShowPast(most):
                await self.show_past(most, whole=True)
            case Say(text) if not text.strip():
                pass
            case Say() | SendFile() | Decided():
                await self._typed.put(line)
        return True

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
                        self._console.print(f"[dim]sent {escape(safe(put.name))}[/]")
                    case Decided(question, data):
                        await self._decide(question, data)
            except ChoirError as error:
                # a refusal is shown, and the conversation goes on
                self._complain(error, "Not sent: ")
            finally:
                self._typed.task_done()

    async def _say(self, text: str, *files: str) -> None:
        accepted = await self._conversation.say(text, files)
        if accepted.note:
            self._console.print(f"[yellow]{escape(safe(accepted.note))}[/]")
        if accepted.command is None:
            self._waiting.begin(accepted.inbox_id)

    async def _decide(self, question: Question, data: str) -> None:
        pressed = await self._conversation.press(question.message, data)
        self._questions.close(question)
        self._console.print(f"[yellow]{escape(safe(pressed.answer))}[/]")

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
        if not self._past.holds(message.session_id, message.rev):
            self._show(message)
        for line in await save_files(self._api, self._dm, message, self._files):
            # whole on its line: a path is copied
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
        self._console.print(f"[red]{what}{escape(safe(error.message))}[/]")


async def _commands(api: ControlApi, dm: str) -> list[CommandView]:
    """Return what may be typed in this conversation; nothing if it cannot be told."""
    try:
        return await api.commands(dm)
    except ChoirError:
        return []
