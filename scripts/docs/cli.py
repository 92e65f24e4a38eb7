"""Reference of choirctl, made of the Typer app."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import typer
from typer.core import TyperGroup

from choirctl.app import COMMANDS, build_app

HEAD = """\
# choirctl

Made of the program's own help when the site is built. Every command prints JSON with `--json`,
and takes `--home DIR` and `--url ADDRESS`. Exit codes: 0 success, 1 failure, 2 usage error,
3 not found, 4 denied, 5 conflict, 6 unavailable.
"""


@cache
def command_tree() -> TyperGroup:
    """Return the program with all of its commands."""
    tree = typer.main.get_command(build_app({entry.name for entry in COMMANDS}))
    assert isinstance(tree, TyperGroup)
    return tree


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the words and the command of everything that can be called."""
    for name, command in command_tree().commands.items():
        if isinstance(command, TyperGroup):
            if command.invoke_without_command:
                yield name, command
            yield from ((f"{name} {word}", inner) for word, inner in command.commands.items())
        else:
            yield name, command


def cli_reference() -> str:
    """Return the page as Markdown."""
    return HEAD + "".join(_describe(name, command) for name, command in commands())


def _describe(name: str, command: Any) -> str:
    arguments = [it for it in command.params if it.param_type_name == "argument"]
    options = [it for it in command.params if it.param_type_name == "option" and not it.hidden]
    options = [it for it in options if it.name not in ("home", "url", "json_output", "as_json")]
    words = " ".join(_metavar(it) for it in arguments)
    lines = [f"\n## choirctl {name}\n", f"{(command.help or '').strip()}\n"]
    lines.append(f"```\nchoirctl {name}{f' {words}' if words else ''}\n```\n")
    if rows := [*(_row(it) for it in (*arguments, *options))]:
        lines += ["| | meaning | default |\n|---|---|---|", *rows, ""]
    if command.epilog:
        lines.append(f"`{command.epilog.removeprefix('Example: ')}`\n")
    return "\n".join(lines)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        shown = _metavar(parameter)
    else:
        shown = ", ".join([*parameter.opts, *parameter.secondary_opts])
    default = parameter.default if isinstance(parameter.default, str | int) else ""
    default = "" if isinstance(default, bool) or default == "" else f"`{default}`"
    text = (getattr(parameter, "help", "") or "").replace("|", r"\|").replace("\n", " ")
    return f"| `{shown}` | {text} | {default} |"


def _metavar(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"
