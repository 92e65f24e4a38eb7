"""Errors in how a command was typed, in the language of the user.

typer writes most of them in English and looks up only a few by gettext. They are recognized by their words,
because their classes are no part of typer's interface; one that is not recognized stays English.
"""

import re
import sys
from collections.abc import Callable
from re import Match

from choir_common.i18n import Message, _
from choirctl.output.language import tr

Rule = tuple[re.Pattern[str], Callable[[Match[str]], Message]]
RULES: tuple[Rule, ...] = (
    (
        re.compile(r"No such option: (\S+) \(Possible options: (.+)\)", re.DOTALL),
        lambda it: _("No such option: {option} (Possible options: {options})").format(
            option=it[1], options=it[2]
        ),
    ),
    (
        re.compile(r"No such option: (\S+)", re.DOTALL),
        lambda it: _("No such option: {option}").format(option=it[1]),
    ),
    (
        re.compile(r"Missing argument '(.+)'\.", re.DOTALL),
        lambda it: _("Missing argument '{name}'.").format(name=it[1]),
    ),
    (
        re.compile(r"Missing option '(.+)'\.", re.DOTALL),
        lambda it: _("Missing option '{name}'.").format(name=it[1]),
    ),
    (
        re.compile(r"Invalid value for (.+?): (.+)", re.DOTALL),
        lambda it: _("Invalid value for {name}: {reason}").format(
            name=it[1], reason=describe(it[2])
        ),
    ),
    (
        re.compile(r"Invalid value: (.+)", re.DOTALL),
        lambda it: _("Invalid value: {reason}").format(reason=describe(it[1])),
    ),
    (
        re.compile(r"Got unexpected extra argument\(s\) \((.+)\)", re.DOTALL),
        lambda it: _("Got unexpected extra argument(s) ({words})").format(words=it[1]),
    ),
    (
        re.compile(r"Option '(.+)' requires an argument\.", re.DOTALL),
        lambda it: _("Option '{option}' requires an argument.").format(option=it[1]),
    ),
    (
        re.compile(r"Option '(.+)' does not take a value\.", re.DOTALL),
        lambda it: _("Option '{option}' does not take a value.").format(option=it[1]),
    ),
    (
        # the first sentence is translated by typer
        re.compile(r"(.+)\. Did you mean (.+)\?", re.DOTALL),
        lambda it: _("{error}. Did you mean {names}?").format(error=it[1], names=it[2]),
    ),
    (
        re.compile(
            r"Input should be a valid integer, unable to parse string as an integer", re.DOTALL
        ),
        lambda it: _("it is not a whole number"),
    ),
    (
        re.compile(
            r"Input should be a valid number, unable to parse string as a number", re.DOTALL
        ),
        lambda it: _("it is not a number"),
    ),
    (
        re.compile(r"Input should be greater than or equal to (\S+)", re.DOTALL),
        lambda it: _("Input should be greater than or equal to {ge}").format(ge=it[1]),
    ),
    (
        re.compile(r"Input should be less than or equal to (\S+)", re.DOTALL),
        lambda it: _("Input should be less than or equal to {le}").format(le=it[1]),
    ),
    (
        re.compile(r"'(.*)' is not one of (.+)\.", re.DOTALL),
        lambda it: _("'{value}' is not one of {values}.").format(value=it[1], values=it[2]),
    ),
    (
        re.compile(r"(?:File|Path) '(.*)' does not exist\.", re.DOTALL),
        lambda it: _("There is no file '{path}'.").format(path=it[1]),
    ),
    (
        re.compile(r"Directory '(.*)' does not exist\.", re.DOTALL),
        lambda it: _("There is no directory '{path}'.").format(path=it[1]),
    ),
)


def describe(words: str) -> str:
    """Return the words of typer as a message if they are known."""
    for pattern, message in RULES:
        if match := pattern.fullmatch(words):
            return message(match)
    return words


def write_usage(error: BaseException) -> None:
    """Write the usage of the command that was typed, and how to get its help; nothing for another error."""
    context = getattr(error, "ctx", None)
    if context is None:
        return
    sys.stderr.write(f"{context.get_usage()}\n")
    if context.command.get_help_option(context) is not None:
        hint = _("Try '{command} {option}' for help.").format(
            command=context.command_path, option=context.help_option_names[0]
        )
        sys.stderr.write(f"{tr(hint)}\n")
    sys.stderr.write("\n")


def is_help(error: BaseException) -> bool:
    """Return whether an error is the help that typer shows for a group without a subcommand."""
    return type(error).__name__ == "NoArgsIsHelpError"
