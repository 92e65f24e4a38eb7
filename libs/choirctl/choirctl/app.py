"""The table of commands, and the typer app built from it. Called by `__main__`.

`--help` has to be fast, and the imports of a command (models, HTTP, the embedded stack) are slow. So a
command's module is loaded only if its name is on the command line; the others appear in the help only.
"""

import os
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from choir_common.i18n import _
from choirctl.examples import add_examples
from choirctl.output.language import tr

MAX_PLACES = 4
"""Groups named for a word that is a command of several."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A top-level command or group; its module has a function `register(app)`."""

    name: str
    help: str

    @property
    def module(self) -> str:
        # a module cannot have the name of a keyword
        suffix = "_" if iskeyword(self.name) else ""
        return f"choirctl.commands.{self.name}{suffix}"


COMMANDS = (
    CommandEntry("up", "Start Choir on this machine."),
    CommandEntry("down", "Stop the Choir that `up` started."),
    CommandEntry("status", "Show the state of Choir and its agents, and pending requests."),
    CommandEntry("chat", "Talk to an agent."),
    CommandEntry("web", "Print a link to the web page; list and sign out browsers."),
    CommandEntry("client", "Manage tokens for the OpenAI-compatible API and MCP."),
    CommandEntry("agent", "List, start and stop agents, and send instructions to them."),
    CommandEntry("mcp", "Manage MCP servers of agents, and offer an agent by MCP."),
    CommandEntry("harness", "List and test external coding agents that do core jobs."),
    CommandEntry("tool", "Write, check, try and list an agent's own tools."),
    CommandEntry("skill", "Add, list, show, approve and remove skill folders (SKILL.md)."),
    CommandEntry("model", "List language models, and select an agent's model."),
    CommandEntry("voice", "List voices, and select an agent's voice."),
    CommandEntry("session", "Show, compact and reset sessions; show their logs and jobs."),
    CommandEntry("memory", "Show, change, export and import an agent's memory."),
    CommandEntry("import", "Import what other assistants stored or exported."),
    CommandEntry("collection", "Add documents to an agent's memory, and erase them."),
    CommandEntry("person", "List, link, pair and erase the people who talk with agents."),
    CommandEntry("schedule", "Add reminders and instructions for later, and show their runs."),
    CommandEntry("hook", "Show and try incoming webhooks, and list what arrived."),
    CommandEntry("trigger", "Show what folders and mail start, and list what arrived."),
    CommandEntry("workspace", "Show workspaces, and empty one."),
    CommandEntry("approval", "Show agents' approval requests, and decide them."),
    CommandEntry("policy", "Show the rules on tool calls, and what they decide."),
    CommandEntry("audit", "Check that no log was changed, and show its anchors."),
    CommandEntry("operation", "Show builds, updates and resets, and their progress."),
    CommandEntry("cost", "Show what model calls have cost, in US dollars."),
    CommandEntry("logs", "Print a log and follow it until Ctrl-C."),
    CommandEntry("tls", "Show the CA certificate of this Choir's HTTPS endpoint."),
    CommandEntry("db", "Migrate, back up and restore the embedded database."),
    CommandEntry("backup", "Back up the whole state directory, and restore it elsewhere."),
    CommandEntry("upgrade", "Upgrade Choir, and return to the old version if that fails."),
    CommandEntry("config", "Show config.json, and apply changes to it."),
    CommandEntry("telegram", "Connect a Telegram bot with an agent and with you."),
    CommandEntry("secret", "Store keys and passwords, and apply changes to them."),
    CommandEntry("doctor", "Check for problems; sends one request to the model."),
    CommandEntry("service", "Run Choir as a service that starts with the machine."),
    CommandEntry("uninstall", "Stop Choir, and remove its service and its packages."),
    CommandEntry("init", "Create the state directory with a first configuration."),
    CommandEntry("version", "Print the version."),
)


class _TopLevel(TyperGroup):
    """The commands; a word that is only a subcommand is answered with its groups, as in `agent restart`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and (places := _groups_with(args[0])):
            names = ", ".join(repr(f"{place} {args[0]}") for place in places[:MAX_PLACES])
            message = _("No such command '{name}'. Did you mean {names}?")
            ctx.fail(tr(message.format(name=args[0], names=names)))
        return super().resolve_command(ctx, args)


def _groups_with(word: str) -> list[str]:
    everything = get_command(build_app({entry.name for entry in COMMANDS}))
    groups = everything.commands if isinstance(everything, TyperGroup) else {}
    return [
        name
        for name, group in groups.items()
        if isinstance(group, TyperGroup) and word in group.commands
    ]


def command_line_words() -> set[str]:
    """Return the words of the command line, whether it is executed or completed by the shell."""
    pending = f"{os.environ.get('COMP_WORDS', '')} {os.environ.get('_TYPER_COMPLETE_ARGS', '')}"
    return {*sys.argv[1:], *pending.split()}


def build_app(words: Collection[str]) -> typer.Typer:
    """Return the app, with the modules of the commands in `words` loaded."""
    app = typer.Typer(
        name="choirctl",
        cls=_TopLevel,
        help="Run Choir and talk to it.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # its renderer takes 0.25 s to load, twice all the rest
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 missing, 4 denied, 5 conflict, "
        "6 unavailable. Data goes to standard output, everything else to standard error.",
    )
    app.callback()(_store_global_options)
    for entry in COMMANDS:
        if entry.name in words:
            import_module(entry.module).register(app)
        else:
            app.command(entry.name, help=entry.help)(_unreachable)
    add_examples(app)
    return app


def add_group(
    app: typer.Typer,
    name: str,
    *commands: tuple[str, Callable[..., None]],
    alone: Callable[..., None] | None = None,
) -> None:
    """Add a command group with its subcommands; its help text comes from the table.

    `alone` is called for the group's name without a subcommand, instead of the help.
    """
    group = typer.Typer(no_args_is_help=alone is None, rich_markup_mode=None)
    if alone is not None:
        group.callback(invoke_without_command=True)(alone)
    for word, command in commands:
        group.command(word)(command)
    help_ = next(entry.help for entry in COMMANDS if entry.name == name)
    app.add_typer(group, name=name, help=help_)


def _print_version(value: bool) -> None:
    if value:
        import_module("choirctl.commands.version").version()
        raise typer.Exit


def _store_global_options(
    ctx: typer.Context,
    home: Annotated[
        Path | None,
        typer.Option(help="State directory; else CHOIR_HOME, else ~/.choir.d.", show_default=False),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Address of control; else CHOIR_URL, else the socket in the state directory.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    ctx.obj = (home, url)


def _unreachable() -> None:
    raise AssertionError("the module of a called command was not loaded")
