"""Interactive chat on a terminal: the prompt stays usable while the agent works. Called by `chat` and
`up`.

Typed lines are sent at once; received messages appear above the prompt, and the activity of the agent's
lanes and jobs below it, with the newest lines of the reply that is being written. Ctrl-C stops that reply,
also before its first word; otherwise Ctrl-C or Ctrl-D leaves.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.escape_text import escape_hidden
from choir_common.i18n import _, ngettext
from choir_common.ids import new_id
from choir_common.lanes import CORE_LANE_PREFIX, is_core
from choir_common.target import Target
from choir_common.wire.memory_modes import INCOGNITO, MEMORY_MODES
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.operator import CommandView
from choirctl.api.control import ControlClient, connect
from choirctl.chat.approval_prompts import (
    ButtonChoice,
    PendingApproval,
    PendingApprovals,
    without_edited,
)
from choirctl.chat.dm_client import DmClient, open_dm
from choirctl.chat.file_transfer import save_files, upload_file
from choirctl.chat.follow import SessionFollower
from choirctl.chat.history import History, history_line, read_history
from choirctl.chat.lane_activity import truncate_to_width
from choirctl.chat.line_parser import (
    LOCAL_COMMANDS,
    ChatLine,
    ChatMessage,
    Correction,
    FileMessage,
    LeaveChat,
    ShowHistory,
    parse_line,
)
from choirctl.chat.prompt import ChatCompleter, ChatPrompt, open_history, unwrapped_stdout
from choirctl.chat.render import render_message
from choirctl.chat.status_line import ChannelActivity, UnansweredMessages
from choirctl.output.language import tr
from choirctl.output.printing import escape
from choirctl.output.safe_console import SafeConsole

FLUSH_S = 0.2  # how long the patched standard output may take to print
MAX_UNSENT_LINES = 100  # lines queued while Choir accepts none
INITIAL_HISTORY = 6  # messages of the history that are shown when the chat opens
HISTORY_TIMEOUT_S = 5.0  # the history is not worth a longer wait
HELP = "/help"
MEMORY_COMMAND = "/memory"
CANCEL_COMMAND = "/cancel"


@dataclass(frozen=True, slots=True)
class SentMessage:
    """The user's latest message, for a correction of it."""

    key: str
    text: str


async def run_terminal_chat(
    place: Target, dm: str, files: Path, *, stops_all: bool = False
) -> None:
    """Chat in `dm` until the user leaves; received files are saved in `files`.

    With `stops_all` the caller stops Choir afterwards, so leaving takes a second Ctrl-C.
    Raises (in a group) NotFound for an unknown DM, Unavailable when nothing answers.
    """
    # raw: prompt_toolkit must not escape the colours that rich has added
    with unwrapped_stdout(), patch_stdout(raw=True):
        # rich's highlighter would colour numbers and paths inside messages
        console = SafeConsole(highlight=False)
        async with connect(place) as api, open_dm(api, dm) as conversation:
            leaving = _("Ctrl-C twice or Ctrl-D stops Choir") if stops_all else "Ctrl-D leaves"
            console.print(
                _(
                    "[dim]Chat in DM `{dm}`. Enter sends, {leaving}, /help lists commands.[/]"
                ).format(dm=dm, leaving=leaving)
            )
            chat = _TerminalChat(
                api,
                dm,
                conversation=conversation,
                console=console,
                files=files,
                stops_all=stops_all,
            )
            await chat.show_history(INITIAL_HISTORY)
            await chat.show_pending_approvals()
            completer = ChatCompleter(await _commands(api, dm), chat)
            await chat.run(ChatPrompt(open_history(place, chat), completer, chat))
        # patch_stdout prints from a thread: give it time for the last lines
        await asyncio.sleep(FLUSH_S)


class _TerminalChat:
    """One chat session on one terminal: tasks that read lines, send, print messages and follow the log."""

    def __init__(
        self,
        api: ControlClient,
        dm: str,
        *,
        conversation: DmClient,
        console: Console,
        files: Path,
        stops_all: bool,
    ) -> None:
        self._api = api
        self._dm = dm
        self._conversation = conversation
        self._console = console
        self._files = files
        self._stops_all = stops_all
        self._leave_warned = False
        self._stopping = False
        """Whether Ctrl-C has stopped the current reply; another one leaves."""
        self._unanswered = UnansweredMessages()
        self._channel_activity = ChannelActivity()
        self._pending_approvals = PendingApprovals()
        self._follower = SessionFollower(api, dm, self)
        self._history = History()
        self._send_queue: asyncio.Queue[ChatMessage | FileMessage | Correction | ButtonChoice] = (
            asyncio.Queue(MAX_UNSENT_LINES)
        )
        self._unsent = 0
        self._last_sent: SentMessage | None = None
        self._entering_incognito = False
        """The user has typed the switch to incognito, which takes seconds, and no other switch since."""
        self._prefill = ""
        """The text with which the next line is prefilled."""

    async def run(self, prompt: ChatPrompt) -> None:
        """Run the chat; return when the user has left and every typed line was sent."""
        async with asyncio.TaskGroup() as tasks:
            ending = [
                tasks.create_task(work)
                for work in (
                    self._print_received(),
                    self._follower.run(),
                    prompt.redraw_on_change(),
                )
            ]
            sending = tasks.create_task(self._send_typed())
            await self._read_lines(prompt)
            # lines typed before the user left are still sent
            await self._send_queue.join()
            for task in (sending, *ending):
                task.cancel()

    async def show_history(self, most: int, *, full: bool = False) -> None:
        """Print up to `most` messages of the history, or nothing if it cannot be read in time."""
        with contextlib.suppress(ChoirError, TimeoutError):
            async with asyncio.timeout(HISTORY_TIMEOUT_S):
                agent = await self._follower.bound_agent()
                if agent is None:
                    return
                self._history = await read_history(self._api, agent.agent_id, self._dm, most)
                # these events were printed as history, so the follower must not print them again
                for name, head in self._history.heads:
                    self._follower.shown_revs.setdefault(name, head)
                for event in self._history.messages:
                    self._console.print(history_line(event, agent.agent_id, full=full))

    async def show_pending_approvals(self) -> None:
        """Print the approval requests that are still pending, or nothing if they cannot be read."""
        with contextlib.suppress(ChoirError):
            for message in without_edited(await self._conversation.recent_messages()):
                self._show(message)

    def running_jobs(self) -> list[str]:
        """Return the names of the running core jobs, for completion."""
        lanes = self._follower.lanes.busy
        return [lane.removeprefix(CORE_LANE_PREFIX) for lane in lanes if is_core(lane)]

    def prompt_text(self) -> str:
        """Return the prompt."""
        incognito = "incognito " if self._follower.memory_mode == INCOGNITO else ""
        return f"{self._pending_approvals.prompt_prefix()}{incognito}› "

    def keeps_history(self) -> bool:
        """Return whether typed lines are stored on disk: not while incognito or on the way there."""
        return not self._entering_incognito and self._follower.memory_mode != INCOGNITO

    def status_lines(self, width: int) -> Sequence[str]:
        """Return the lines below the prompt: the busy lanes, or that the connection is lost."""
        if not self._conversation.is_connected:
            waiting = (
                _("; {count} to send").format(
                    count=ngettext("{count} line", "{count} lines", self._unsent)
                )
                if self._unsent
                else ""
            )
            return [
                truncate_to_width(
                    _("connection lost, trying again{waiting}").format(waiting=waiting), width
                )
            ]
        now = time.monotonic()
        draft = self._channel_activity.draft_lines(now, width)
        if draft:
            return draft
        lanes = self._follower.lanes
        lines = [*lanes.lines(now, width)]
        # lanes from the log are more precise than the channel's typing indicator
        if not lines or self._channel_activity.cards:
            activity = self._channel_activity.lines(now, lanes.jobs)
            lines += [truncate_to_width(line, width) for line in activity]
        return lines or [self._unanswered.spinner()]

    async def _read_lines(self, prompt: ChatPrompt) -> None:
        with prompt.raw_mode():
            while (typed := await prompt.read_line(self._prefill)) is not None:
                self._prefill = ""
                if typed.interrupted:
                    if await self._stop_reply():
                        continue
                    if self._confirm_leave():
                        return
                    continue
                self._leave_warned = self._stopping = False
                try:
                    line = self._pending_approvals.parse_answer(typed.text, typed.started_at)
                    if not await self._execute(line or parse_line(typed.text)):
                        return
                except ChoirError as error:
                    self._print_error(error)

    async def _stop_reply(self) -> bool:
        """Stop the reply that the user waits for; return False if there is none, or if that was tried."""
        is_written = bool(self._channel_activity.draft_lines(time.monotonic(), 80))
        if self._stopping or not (is_written or self._is_reply_due()):
            return False
        self._stopping = True
        return await self._execute(ChatMessage(CANCEL_COMMAND))

    def _is_reply_due(self) -> bool:
        """Return whether the agent works on a message of this chat, and does not wait for the user itself."""
        return (
            self._conversation.is_connected
            and bool(self._unanswered.sent_at)
            and not self._pending_approvals.pending
        )

    def _confirm_leave(self) -> bool:
        """Return whether Ctrl-C in an empty line leaves; if that stops Choir, the first one only warns."""
        if not self._stops_all or self._leave_warned:
            return True
        self._leave_warned = True
        self._console.print(_("[yellow]Ctrl-C again stops Choir and all its agents.[/]"))
        return False

    async def _execute(self, line: ChatLine | ButtonChoice) -> bool:
        """Execute a line; return False if it ends the chat."""
        if isinstance(line, ChatMessage):
            self._note_switch(line.text)
        match line:
            case LeaveChat():
                return False
            case ShowHistory(most):
                await self.show_history(most, full=True)
            case ChatMessage(text) if not text.strip():
                pass
            case Correction("") if self._unsent:
                raise InvalidRequest(_("Your last message is still being sent."))
            case Correction(""):
                self._prefill = f"/edit {self._last().text}"
            case ChatMessage() | FileMessage() | Correction() | ButtonChoice():
                self._unsent += 1
                await self._send_queue.put(line)
        return True

    def _note_switch(self, text: str) -> None:
        words = text.lower().split()
        if words[:1] == [MEMORY_COMMAND] and len(words) > 1:
            self._entering_incognito = MEMORY_MODES.get(words[1]) == INCOGNITO

    def _last(self) -> SentMessage:
        if self._last_sent is None:
            raise InvalidRequest(_("You have not sent a message yet that could be corrected."))
        return self._last_sent

    async def _send_typed(self) -> None:
        while True:
            line = await self._send_queue.get()
            try:
                match line:
                    case ChatMessage(text):
                        await self._send_message(text)
                    case FileMessage(path, text):
                        put = await upload_file(self._api, self._dm, path)
                        await self._send_message(text, put.ref)
                        self._console.print(
                            _("[dim]sent {escape_hidden}[/]").format(
                                escape_hidden=escape(escape_hidden(put.name))
                            )
                        )
                    case Correction(text):
                        await self._send_message(text, edits=self._last().key)
                    case ButtonChoice(question, data):
                        await self._decide(question, data)
            except ChoirError as error:
                # show the error; the chat continues
                self._print_error(error, _("Not sent: "))
            finally:
                self._unsent -= 1
                self._send_queue.task_done()

    async def _send_message(self, text: str, *files: str, edits: str | None = None) -> None:
        key = new_id("cli")
        accepted = await self._conversation.send_message(text, files, key=key, edits=edits)
        if accepted.note:
            self._console.print(f"[yellow]{escape(escape_hidden(accepted.note))}[/]")
        if accepted.command is None:
            # a correction of a correction also names the original message
            self._last_sent = SentMessage(edits or key, text)
            self._unanswered.add(accepted.inbox_id)
        elif accepted.command == HELP:
            own = "\n".join(" - ".join(map(tr, words)) for words in LOCAL_COMMANDS.values())
            self._console.print(
                _("[yellow]Commands of this chat:\n{own}[/]").format(own=escape(own))
            )

    async def _decide(self, question: PendingApproval, data: str) -> None:
        pressed = await self._conversation.press_button(question.message, data)
        self._pending_approvals.remove(question)
        self._console.print(f"[yellow]{escape(escape_hidden(pressed.answer))}[/]")

    async def _print_received(self) -> None:
        while True:
            item = await self._conversation.receive()
            if isinstance(item, OutboundMessage):
                await self._receive(item)
                continue
            done = self._channel_activity.apply(item, time.monotonic(), self._follower.lanes.jobs)
            if done:
                self._console.print(f"[dim]{escape(done)}[/]")

    async def _receive(self, message: OutboundMessage) -> None:
        self._unanswered.resolve(message)
        self._channel_activity.resolve(message)
        self._stopping = False
        # a message delivered while the history was read may already be on the screen
        if not self._history.contains(message.session_id, message.rev):
            self._show(message)
        for line in await save_files(self._api, self._dm, message, self._files):
            # soft-wrapped, so that the path can be copied as one line
            self._console.print(f"[bold green]{escape(line)}[/]", soft_wrap=True)

    def _show(self, message: OutboundMessage) -> None:
        self._console.print(render_message(message))
        question = self._pending_approvals.add_message(message, time.monotonic())
        if question is not None:
            self._console.print(f"[bold]{escape(question.describe())}[/]")

    async def print_activity(self, line: str) -> None:
        """Print what the agent has done."""
        self._console.print(f"[dim magenta]· {escape(line)}[/]")

    def _print_error(self, error: ChoirError, what: str = "") -> None:
        self._console.print(f"[red]{what}{escape(escape_hidden(tr(error.message)))}[/]")


async def _commands(api: ControlClient, dm: str) -> list[CommandView]:
    """Return the commands of this conversation; none if they cannot be read."""
    try:
        return await api.commands(dm)
    except ChoirError:
        return []
