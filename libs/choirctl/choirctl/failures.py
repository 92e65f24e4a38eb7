"""Turn what a command raised into one paragraph on standard error and an exit code. Called by `__main__`."""

import os
import sys
import textwrap
import traceback

from choir_common.errors import ChoirError
from choirctl.place import environment

WIDTH = 100  # at most: wider is hard to read
UNEXPECTED = 1
ITEM = "- "


def explain(error: BaseException) -> int:
    """Print `error` as a paragraph; return the exit code it means."""
    match error:
        case ChoirError():
            _say(error.message)
            return error.exit_code
        case BaseExceptionGroup():
            # the first is the cause; the others fell with it
            return explain(error.exceptions[0])
        case PermissionError():
            _say(
                f"Permission denied: {error.filename or error}. Check who owns it, and who you are."
            )
            return 4
        case OSError():
            _say(f"{error.filename or 'The system'}: {error.strerror or error}.")
            return UNEXPECTED
        case _:
            _say(
                f"choirctl failed: {type(error).__name__}: {error}. Set CHOIR_DEBUG=1 to see where."
            )
            if environment("CHOIR_DEBUG"):
                traceback.print_exception(error)
            return UNEXPECTED


def _say(message: str) -> None:
    try:
        width = min(WIDTH, os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH)
    except (OSError, ValueError):  # no terminal
        width = WIDTH
    # only a list of faults has lines; other words are one paragraph
    lines = message.split("\n") if f"\n{ITEM}" in message else [message]
    for number, line in enumerate(lines):
        _write_filled(line if number else f"Error: {line}", width)


def _write_filled(line: str, width: int) -> None:
    """Write a line in as many as it needs; what goes on with an item of a list stands below its words."""
    text = " ".join(line.split())
    indent = "  " if text.startswith(ITEM) else ""
    filled = textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    sys.stderr.write(f"{filled}\n")
