"""Understand a line typed in a chat: words for the agent, or something the terminal itself does.

Pure; used by `talk`. Whatever else begins with a slash is a command of the conversation.
"""

import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import BadInput

HISTORY = 20
LOCAL = {
    "/edit": (
        "/edit [words]",
        "Correct what you said last; alone, change it in the line.",
    ),
    "/send": ("/send FILE [words]", "Send a file to the agent."),
    "/history": ("/history [COUNT]", "Show what was said last."),
    "/quit": ("/quit", "Leave this chat, as Ctrl-D does."),
}


@dataclass(frozen=True, slots=True)
class Say:
    """Words, or a command, for the conversation."""

    text: str


@dataclass(frozen=True, slots=True)
class SendFile:
    """A file for the agent, with words beside it."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Correct:
    """Other words for what was said last; without any, its own are wanted in the line."""

    text: str


@dataclass(frozen=True, slots=True)
class ShowPast:
    """So much of what was said."""

    most: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The end of the chat, not of the agent."""


Line = Say | SendFile | Correct | ShowPast | Leave


def understand(text: str) -> Line:
    """Return what a line asks for. Raises BadInput when it is half of something."""
    word, _, rest = text.strip().partition(" ")
    match word:
        case "/edit":
            return Correct(rest.strip())
        case "/send":
            return _send(rest.strip())
        case "/history":
            return _past(rest.strip())
        case "/quit" | "/exit":
            return Leave()
        case _:
            return Say(text)


def unquoted(typed: str) -> str | None:
    """Return the file name that `typed` begins; None when other words follow the name already."""
    if len(typed) - len(typed.rstrip("\\")) & 1:
        typed = typed[:-1]  # the blank or quote that it is for is still to be typed
    for closing in ("", "'", '"'):
        try:
            names = shlex.split(typed + closing, comments=False)
        except ValueError:
            continue
        # a blank at the end, outside of quotes, ends the name
        ended = not closing and typed != typed.rstrip() and not typed.endswith("\\ ")
        return None if len(names) > 1 or ended else "".join(names)
    return None


def quoted(name: str) -> str:
    """Return a file name as `/send` reads it: blanks, quotes and backslashes behind a backslash.

    Quotes around the whole would hide a `~` at the beginning, and end a name that goes on.
    """
    return re.sub(r"""([\s'"\\])""", r"\\\1", name)


def _send(rest: str) -> SendFile:
    typed = io.StringIO(rest)
    words = shlex.shlex(typed, posix=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        name = words.get_token()
    except ValueError as error:
        raise BadInput(f"A quote is not closed: {LOCAL['/send'][0]}.") from error
    if not name:
        raise BadInput(f"Which file? {LOCAL['/send'][0]}; quote a name with blanks in it.")
    # what follows the name is as it was typed
    return SendFile(Path(name).expanduser(), typed.read().strip())


def _past(rest: str) -> ShowPast:
    if not rest:
        return ShowPast(HISTORY)
    if not (rest.isascii() and rest.isdigit() and 0 < int(rest) <= 1000):
        raise BadInput(f"{LOCAL['/history'][0]}: a number from 1 to 1000.")
    return ShowPast(int(rest))
