"""Conversion of an exception into a paragraph (or JSON) on standard error and an exit code.

Called by `__main__`, and by `up` for a chat that fails.
"""

import json
import os
import sys
import textwrap
import traceback
from dataclasses import dataclass

import typer

from choir_common.errors import ChoirError, Forbidden, InvalidRequest
from choir_common.escape_text import escape_json
from choir_common.i18n import _
from choir_common.target import read_env
from choirctl.output.language import server_text, tr
from choirctl.output.usage_errors import describe, is_help, write_usage

WIDTH = 100  # at most: wider is hard to read
UNEXPECTED_EXIT = 1
ITEM = "- "


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it is reported: its stable code, its message and its exit code."""

    code: str
    message: str
    exit_code: int


def report_error(error: BaseException, *, as_json: bool = False) -> int:
    """Print `error` as a paragraph, or with `as_json` as JSON; return its exit code."""
    failure = failure_of(error)
    if as_json:
        fields = {
            "code": failure.code,
            "message": failure.message,
            "exit_code": failure.exit_code,
        }
        text = json.dumps({"error": fields}, indent=2, ensure_ascii=False)
        sys.stderr.write(f"{escape_json(text)}\n")
    elif is_help(error):
        sys.stderr.write(f"{failure.message}\n")
    else:
        write_usage(error)
        _write_paragraph(server_text(failure.message))
    if failure.code == ChoirError.code and read_env("CHOIR_DEBUG"):
        traceback.print_exception(error)
    return failure.exit_code


def failure_of(error: BaseException) -> Failure:
    """Return the report of an exception."""
    match error:
        case ChoirError():
            return Failure(error.code, error.message, error.exit_code)
        case BaseExceptionGroup():
            # the first is the cause; the others are its consequences
            return failure_of(error.exceptions[0])
        case PermissionError():
            words = _("Permission denied: {file}. Check its owner and your user.").format(
                file=str(error.filename or error)
            )
            return Failure(Forbidden.code, words, Forbidden.exit_code)
        case OSError():
            words = _("{file}: {error}.").format(
                file=error.filename or _("The system"), error=error.strerror or str(error)
            )
            return Failure("system", words, UNEXPECTED_EXIT)
        case typer.Abort():
            return Failure("aborted", _("Aborted."), UNEXPECTED_EXIT)
        case _ if hasattr(error, "format_message"):
            # a usage error of typer
            return Failure("usage", describe(error.format_message()), InvalidRequest.exit_code)
        case _:
            words = _("choirctl failed: {kind}: {error}. Set CHOIR_DEBUG=1 to see where.").format(
                kind=type(error).__name__, error=str(error)
            )
            return Failure(ChoirError.code, words, UNEXPECTED_EXIT)


def _write_paragraph(message: str) -> None:
    try:
        width = min(WIDTH, os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH)
    except (OSError, ValueError):  # no terminal
        width = WIDTH
    # only a list of faults has line breaks; any other message is one paragraph
    lines = message.split("\n") if f"\n{ITEM}" in message else [message]
    for number, line in enumerate(lines):
        _write_filled(line if number else tr(_("Error: {line}").format(line=line)), width)


def _write_filled(line: str, width: int) -> None:
    """Write a wrapped line; the continuation lines of a list item are indented."""
    text = " ".join(line.split())
    indent = "  " if text.startswith(ITEM) else ""
    filled = textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    sys.stderr.write(f"{filled}\n")
