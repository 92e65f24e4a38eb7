"""Command `choirctl init`: create the state directory."""

import typer

from choir_common.i18n import _
from choirctl.api.target import AsJson, Home, find_target
from choirctl.output.printing import print_json, stderr_console
from choirctl.start.state_directory import create_state_directory


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(init)


def init(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """Create the state directory with a first configuration.

    Existing files are never changed.
    """
    result = create_state_directory(find_target(ctx, home).home)
    if as_json:
        print_json({"home": str(result.home), "made": [str(path) for path in result.paths]})
        return
    console = stderr_console()
    if not result.paths:
        console.print(
            _("{home} is complete already; nothing was changed.").format(home=result.home)
        )
        return
    console.print(_("Created the state directory [bold]{home}[/]:").format(home=result.home))
    for path in result.paths:
        console.print(f"  {path}")
    console.print(
        _(
            "\nIt has one agent, `main`, on this terminal. Next:\n  choirctl up       start "
            "it\n  choirctl doctor   check for problems\nTo give it a model, set "
            "OPENROUTER_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, run "
            "Ollama or another model server, or name one in {home}."
        ).format(home=result.home / "config.json")
    )
