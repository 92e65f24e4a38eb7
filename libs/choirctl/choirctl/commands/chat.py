"""Command `choirctl chat`: send one message and print the answer, or start an interactive chat."""

import asyncio
import contextlib
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from choir_common.errors import ChoirError, Conflict, DeadlineExceeded, InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.activity import Draft
from choir_common.wire.messages import InboundAccepted, OutboundMessage
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.chat.dm_client import DmClient, open_dm
from choirctl.chat.dm_selection import select_dm
from choirctl.chat.draft_lines import wrap_draft
from choirctl.chat.file_transfer import save_files, upload_file
from choirctl.chat.own_words import message_text
from choirctl.chat.stop_detection import wait_until_stopped
from choirctl.output.printing import escape, print_json, stderr_console

GRACE_S = 1.0
STOP_TIMEOUT_S = 2.0
WAITING = _("Waiting for the answer…")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(chat)


def chat(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Option(help="Talk to this agent, in its own DM.")] = None,
    dm: Annotated[
        str | None, typer.Option(help="Use this DM; by default one with a running agent.")
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("-m", "--message", help="Send this message, print the answer and exit."),
    ] = None,
    send: Annotated[
        list[Path] | None, typer.Option("--send", help="Send this file with it; may be repeated.")
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(
            help="Where received files are saved; else `received` in the state directory."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to wait for the answer to -m.")
    ] = 300.0,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Talk to an agent.

    With -m, --send, or text on standard input, only the answer is printed on standard output; on a terminal,
    standard error shows it while it is written, and Ctrl-C stops it. The paths of received files go to
    standard error. A message that begins with a slash is a command: /help lists them.
    """
    place = find_target(ctx, home, url)
    if agent and dm:
        raise InvalidRequest(_("Give --agent or --dm, not both: an agent has one DM."))
    folder = (files or place.download_dir).expanduser().absolute()
    if message is None and not send and not sys.stdin.isatty():
        message = sys.stdin.read()
    if message is None and not send:
        asyncio.run(_chat(place, agent, dm, folder))
        return
    if not (message or "").strip() and not send:
        raise InvalidRequest(_("The message is empty: -m or standard input has no text."))
    asking = _OneMessage(message or "", tuple(send or ()), folder, timeout)
    _show(asyncio.run(_send_and_wait(place, agent, dm, asking)), as_json)


def _show(answer: OutboundMessage | InboundAccepted, as_json: bool) -> None:
    """Print the answer to a message, or the result of a command.

    Raises ChoirError if the agent answered with an error.
    """
    if as_json:
        print_json(answer)
    if isinstance(answer, InboundAccepted):
        if not as_json:
            sys.stdout.write(f"{answer.note}\n")
    elif answer.kind == "error":
        raise ChoirError(
            _("{agent_id} could not answer: {text}").format(
                agent_id=answer.agent_id, text=answer.text
            )
        )
    elif not as_json:
        sys.stdout.write(f"{answer.text}\n")


@dataclass(frozen=True, slots=True)
class _OneMessage:
    """One message with its files, the folder for received files, and the timeout."""

    text: str
    send: tuple[Path, ...]
    folder: Path
    timeout_s: float


async def _chat(place: Target, agent: str | None, dm: str | None, folder: Path) -> None:
    async with connect(place) as api:
        dm_name = await select_dm(api, agent, dm)
    # prompt_toolkit is slow to import, and `chat -m` needs no prompt
    from choirctl.chat.terminal_chat import run_terminal_chat  # noqa: PLC0415

    await run_terminal_chat(place, dm_name, folder)


async def _send_and_wait(
    place: Target, agent: str | None, dm: str | None, message: _OneMessage
) -> OutboundMessage | InboundAccepted:
    """Send a message and return the answer; for a command, return the acknowledgement.

    Raises DeadlineExceeded if there is no answer in time, Conflict if the agent does not run, ChoirError if
    the agent or Choir is stopped while waiting.
    """
    accepted: InboundAccepted | None = None
    try:
        async with asyncio.timeout(message.timeout_s) as limit, connect(place) as api:
            dm_name = await select_dm(api, agent, dm)
            async with open_dm(api, dm_name) as conversation:
                refs = [(await upload_file(api, dm_name, path)).ref for path in message.send]
                accepted = await conversation.send_message(message.text, refs)
                if accepted.command is not None:
                    return accepted
                _refuse_to_wait(accepted)
                answer = _await_answer(api, dm_name, conversation, accepted, message.folder)
                agent_id = accepted.agent_id or _("the agent")
                try:
                    return await _answer_or_stop(
                        answer, wait_until_stopped(api, place, conversation, agent_id)
                    )
                except asyncio.CancelledError:
                    if not limit.expired():
                        await _stop_answer(conversation)
                    raise
    except TimeoutError as error:
        outcome = (
            _("The message is stored and will be answered; `choirctl chat` shows the answer")
            if accepted
            else _("The message was not accepted")
        )
        raise DeadlineExceeded(
            _(
                "No answer within {timeout_s:g} s. {outcome}; `choirctl status` shows what is down."
            ).format(timeout_s=message.timeout_s, outcome=outcome)
        ) from error


async def _stop_answer(conversation: DmClient) -> None:
    """Stop the answer after Ctrl-C; the user does not wait long for that."""
    with contextlib.suppress(ChoirError, TimeoutError):
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await conversation.send_message("/cancel")


async def _answer_or_stop(
    answer: Coroutine[Any, Any, OutboundMessage], stop: Coroutine[Any, Any, str]
) -> OutboundMessage:
    """Wait for the answer. If `stop` ends first, raise ChoirError with the message that it returns."""
    answering, stopping = asyncio.ensure_future(answer), asyncio.ensure_future(stop)
    try:
        await asyncio.wait((answering, stopping), return_when=asyncio.FIRST_COMPLETED)
        # an answer that was delivered just before the stop may not be read yet
        await asyncio.wait((answering,), timeout=GRACE_S)
        if answering.done():
            return answering.result()
        raise ChoirError(stopping.result())
    finally:
        for task in (answering, stopping):
            task.cancel()
        await asyncio.gather(answering, stopping, return_exceptions=True)


async def _await_answer(
    api: ControlClient, dm: str, conversation: DmClient, accepted: InboundAccepted, folder: Path
) -> OutboundMessage:
    console = stderr_console()
    with console.status(WAITING) as status:
        while True:
            message = await conversation.receive()
            if isinstance(message, Draft):
                lines = "\n".join(wrap_draft(message.text, console.width))
                status.update(escape(lines or WAITING))
            if not isinstance(message, OutboundMessage):
                continue  # activity events are not shown in this mode
            for line in await save_files(api, dm, message, folder):
                console.print(line, markup=False)
            if message.kind == "report":
                console.print(
                    _("[bold magenta]{agent_id} reports[/]").format(
                        agent_id=escape(message.agent_id)
                    )
                )
            if message.kind in ("notice", "report", "message"):
                console.print(message_text(message), markup=False)
            elif message.answers == accepted.inbox_id:
                return message


def _refuse_to_wait(accepted: InboundAccepted) -> None:
    """Raise Conflict if no running agent would answer."""
    if accepted.agent_state in ("stopped", "unbound"):
        raise Conflict(
            accepted.note
            or _(
                "Agent {agent_id} does not run. The message waits for it: start it with "
                "`choirctl agent start {agent_id}`."
            ).format(agent_id=accepted.agent_id)
        )
