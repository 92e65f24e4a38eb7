"""Parse a message as a command, and its rest as the arguments of a row. Pure; called by `obey`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from choir_common.errors import BadInput
from choir_control.commands.row import Argument, Kind, Row

# A path such as /etc/hosts is no command, and neither is text after a leading space.
_COMMAND = re.compile(r"/([A-Za-z_][A-Za-z_-]{0,31})(?:@\w{1,64})?(?:\s+(.*))?", re.DOTALL)
MAX_COUNT = 50


@dataclass(frozen=True, slots=True)
class Typed:
    """A message that looks like a command: its first word, and the rest."""

    name: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a command by name, and its settings."""

    values: Mapping[str, str]
    settings: Mapping[str, str]


def read_typed(text: str) -> Typed | None:
    """Return the command that a message looks like, or None for a message to the agent."""
    found = _COMMAND.fullmatch(text.rstrip())
    if found is None:
        return None
    # Telegram does not allow hyphens in command names.
    return Typed(f"/{found[1].lower().replace('_', '-')}", (found[2] or "").strip())


def find_row(rows: Sequence[Row], typed: Typed) -> tuple[Row, str] | None:
    """Return the matching row and the text of its arguments, or None.

    The row with the longest name wins; then one that takes arguments exactly if some were typed:
    `/voice` and `/voice calm` are different commands.
    """
    found = [(row, rest) for row in rows if (rest := _rest(row, typed)) is not None]
    return max(
        found,
        key=lambda each: (len(each[0].name), bool(each[1]) == bool(each[0].arguments)),
        default=None,
    )


def _rest(row: Row, typed: Typed) -> str | None:
    if row.typed is None:
        return None
    first, *more = row.typed.split()
    words = typed.rest.split(maxsplit=len(more))
    if first != typed.name or [word.lower() for word in words[: len(more)]] != more:
        return None
    return words[len(more)] if len(words) > len(more) else ""


def read_arguments(row: Row, text: str) -> Arguments:
    """Parse the arguments of a row. Raises BadInput with the usage."""
    values: dict[str, str] = {}
    settings: dict[str, str] = {}
    rest = text.strip()
    for argument in row.arguments:
        if argument.kind is Kind.SETTINGS:
            settings, rest = _settings(row, rest), ""
            continue
        # a text argument takes the rest of the message
        value, rest = (rest, "") if argument.kind is Kind.TEXT else _next_word(rest)
        if value:
            values[argument.name] = _checked(row, argument, value)
        elif argument.required:
            raise BadInput(f"Say what: {row.usage}. Nothing was done.")
    if rest:
        raise BadInput(f"{rest.split()[0][:60]!r} is too much: {row.usage}. Nothing was done.")
    return Arguments(values, settings)


def _next_word(text: str) -> tuple[str, str]:
    word, *rest = text.split(maxsplit=1) or [""]
    return word, rest[0] if rest else ""


def _checked(row: Row, argument: Argument, value: str) -> str:
    if argument.kind is Kind.COUNT and not (value.isdecimal() and 0 < int(value[:9]) <= MAX_COUNT):
        raise BadInput(f"{value[:60]!r} is no number from 1 to {MAX_COUNT}: {row.usage}.")
    return value


def _settings(row: Row, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in text.split():
        # also accept `--llm=quick`, as on choirctl's command line
        name, equals, value = word.removeprefix("--").partition("=")
        if not (name and equals and value):
            raise BadInput(f"{word[:60]!r} is not name=value: {row.usage}. Nothing was done.")
        found[name.replace("-", "_")] = value
    return found
