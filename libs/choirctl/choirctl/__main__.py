"""Entry point of choirctl. Every exception of a command becomes one paragraph and an exit code."""

import os
import sys

from typer.core import TyperGroup
from typer.main import get_command

from choirctl.app import build_app, command_line_words
from choirctl.output.language import choose_own_language, translate_help
from choirctl.output.terminal import protect_streams

AS_JSON = "--json"


def main() -> None:
    """Run the command line and exit."""
    # the caller may have closed a stream (`>&-`): discard its output then
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123 - open until the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    protect_streams()
    try:
        app = build_app(command_line_words())
        command = get_command(app)
        if AS_JSON not in sys.argv and isinstance(command, TyperGroup):
            # with --json, a program reads the words
            choose_own_language()
            translate_help(command)
        # not standalone: usage errors are raised as well, and are reported in the user's language or as JSON
        sys.exit(command(standalone_mode=False) or 0)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # a command that succeeds never needs rich and the error tree
        from choirctl.output.failures import report_error  # noqa: PLC0415

        sys.exit(report_error(error, as_json=AS_JSON in sys.argv))


if __name__ == "__main__":
    main()
