"""Command `choirctl up`: create what is missing and start the embedded stack."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from choir_common.errors import ChoirError, Conflict, InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.config import Config
from choir_common.wire.operator import DmView
from choir_local.detach import start_detached
from choir_local.home import Home as LocalHome
from choir_local.settings import LocalSettings
from choir_local.stack import Stack
from choir_local.stack_state import StackObserver, StackState
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, find_target
from choirctl.chat.dm_selection import default_dm
from choirctl.output.failures import report_error
from choirctl.output.printing import print_json, stderr_console
from choirctl.start.background import is_running, wait_until_ready
from choirctl.start.config_file import read_config
from choirctl.start.model_key import ModelKeySetup
from choirctl.start.progress import StartProgress
from choirctl.start.state_directory import create_state_directory
from choirctl.start.summary_screen import SummaryScreen
from choirctl.start.unfinished_upgrade import finish_upgrade, restart_command

INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

OnReady = Callable[[StackState], Awaitable[bool]]
"""Called once, when the stack is ready; returns True if the stack is to stop afterwards."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(up)


def up(
    ctx: typer.Context,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background.")] = False,
    score: Annotated[
        Path | None, typer.Option(help="Script file (score) for the rehearsal model.")
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat/--no-chat", help="Open a chat when on a terminal.")
    ] = True,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="HTTP port; else CHOIR_HTTP_PORT, else 9400."),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Start Choir on this machine.

    Creates the state directory if there is none. Without --detach it runs until Ctrl-C.
    """
    place = replace(
        find_target(ctx, home), url=None
    )  # `up` always works on this machine, so it ignores CHOIR_URL
    settings = _settings(place, score, port)
    if asyncio.run(finish_upgrade(settings, in_background=detach)):
        restart_command()
    start = UpCommand(place, settings, LocalHome(place.home), as_json)
    if detach:
        start.run_in_background()
    else:
        start.run_in_foreground(chat and sys.stdin.isatty() and sys.stdout.isatty() and not as_json)


def _settings(place: Target, score: Path | None, port: int | None) -> LocalSettings:
    settings = LocalSettings.load()
    if settings.postgres_dsn:
        raise Conflict(
            _(
                "Choir runs in containers here: `docker compose up --wait` starts it, and "
                "`docker compose down` stops it."
            )
        )
    score_file = score or settings.score
    if score_file is not None and not score_file.is_file():
        raise InvalidRequest(
            _("There is no score at {score_file}. Give --score the path of a file.").format(
                score_file=score_file
            )
        )
    return settings.model_copy(
        update={
            "home": place.home,
            "score": score_file.absolute() if score_file else None,
            "http_port": settings.http_port if port is None else port,
        }
    )


@dataclass(frozen=True, slots=True)
class DmChoice:
    """The DM to chat in, or the reason why there is none."""

    dm: str | None = None
    why_none: str = ""


def _default_dm(dms: Sequence[DmView]) -> DmChoice:
    try:
        return DmChoice(default_dm(dms))
    except Conflict as error:
        return DmChoice(why_none=error.message)


@dataclass(frozen=True, slots=True)
class UpCommand:
    """One run of `choirctl up`."""

    place: Target
    settings: LocalSettings
    local: LocalHome
    as_json: bool

    def run_in_background(self) -> None:
        """Start the stack in the background unless it runs already, wait for it and show the summary."""
        console = stderr_console()
        runs = is_running(self.local)
        config = self._prepare(console, starts=not runs)
        progress = StartProgress(console)
        try:
            state = asyncio.run(
                wait_until_ready(self.local, progress.show)
                if runs
                else start_detached(self.settings, progress)
            )
        finally:
            progress.close()
        headline = _("Choir {value}.").format(
            value=_("was already running") if runs else _("runs in the background")
        )
        dms, link = asyncio.run(self._dms()), asyncio.run(self._web_link())
        self._show(
            console, SummaryScreen(state, config, self.local.secrets_file, dms, link), headline
        )

    def run_in_foreground(self, with_chat: bool) -> None:
        """Run the stack in this process until it is stopped. Raises Conflict if one runs already."""
        console = stderr_console()
        if is_running(self.local):
            raise Conflict(
                _(
                    "Choir runs already in {home}. Talk to it with `choirctl chat`, or stop it with "
                    "`choirctl down`."
                ).format(home=self.place.home)
            )
        config = self._prepare(console, starts=True)
        progress = StartProgress(console)

        async def when_ready(state: StackState) -> bool:
            # the spinner and the chat prompt would overwrite each other
            progress.close()
            dms = await self._dms()
            choice = _default_dm(dms) if with_chat else DmChoice()
            stop = _("Ctrl-C twice stops") if choice.dm else "Ctrl-C stops"
            link = await self._web_link()
            screen = SummaryScreen(state, config, self.local.secrets_file, dms, link)
            self._show(console, screen, _("Choir is running. {stop} it.").format(stop=stop))
            if choice.why_none:
                console.print(choice.why_none, markup=False)
            return choice.dm is not None and await self.chat(console, choice.dm)

        try:
            was_ready = asyncio.run(_run_stack(self.settings, progress, when_ready))
        finally:
            progress.close()
        console.print(_("Choir has stopped."))
        if not was_ready:
            raise typer.Exit(INTERRUPTED)

    async def chat(self, console: Console, dm: str) -> bool:
        """Chat until the user leaves; return False if the chat fails.

        Choir keeps running after a failed chat, because others may be using its agents.
        """
        has_left = False
        try:
            # prompt_toolkit is slow to import, and `up --detach` opens no chat
            from choirctl.chat.terminal_chat import run_terminal_chat  # noqa: PLC0415

            await run_terminal_chat(self.place, dm, self.place.download_dir, stops_all=True)
            has_left = True
        except* ChoirError as errors:
            report_error(errors)
            console.print(_("Choir keeps running without this chat; Ctrl-C stops it."))
        return has_left

    async def _dms(self) -> tuple[DmView, ...]:
        """Return the conversations; none if they cannot be read at the moment."""
        try:
            async with connect(self.place) as api:
                return tuple(await api.dms())
        except ChoirError:
            return ()

    async def _web_link(self) -> str:
        """Return a one-time link to the web page; empty if there is none at the moment."""
        # no link in the journal of a service
        if self.as_json or not sys.stderr.isatty():
            return ""
        try:
            async with connect(self.place) as api:
                return (await api.create_web_link(None)).url
        except ChoirError:
            return ""

    def _prepare(self, console: Console, *, starts: bool) -> Config:
        """Create missing files and validate existing ones before anything is started."""
        result = create_state_directory(self.place.home)
        if self.place.home in result.paths:
            console.print(_("Made the state directory {home}.").format(home=self.place.home))
        file = self.place.home / "config.json"
        config = read_config(file)
        if starts:
            ask = sys.stdin.isatty() and sys.stderr.isatty() and not self.as_json
            ModelKeySetup(self.local, self.settings, config, console).ensure_stored(ask=ask)
            # it may have added the model to config.json
            config = read_config(file)
        return config

    def _show(self, console: Console, screen: SummaryScreen, headline: str) -> None:
        if self.as_json:
            print_json(screen.state)
        else:
            screen.show(console, headline)


async def _run_stack(settings: LocalSettings, observer: StackObserver, on_ready: OnReady) -> bool:
    """Run the stack in this process; return False if it was stopped before it was ready.

    It runs until a signal arrives or the user leaves the chat. A second signal kills the processes that
    still run. Raises StartupError (in a group) if the stack does not start.
    """
    stack = Stack(settings, observer)
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stack.stop)
    try:
        async with asyncio.TaskGroup() as tasks:
            chat_task = tasks.create_task(_chat_when_ready(stack, on_ready))
            running = tasks.create_task(stack.run())
            # when the stack has ended, the chat or the wait for readiness must end, too
            running.add_done_callback(lambda _: chat_task.cancel())
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
    return stack.ready.is_set()


async def _chat_when_ready(stack: Stack, on_ready: OnReady) -> None:
    await stack.ready.wait()
    if await on_ready(stack.state):
        stack.stop()
