"""Parser for lines typed in a chat: a message for the agent, or a command of the terminal itself.

Pure; used by `terminal_chat`. Any other line that begins with a slash is a command that control handles.
"""

import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import InvalidRequest
from choir_common.i18n import _

DEFAULT_HISTORY = 20
LOCAL_COMMANDS = {
    "/edit": (
        "/edit [TEXT]",
        _("Correct your last message; without TEXT, edit it in the input line."),
    ),
    "/send": ("/send FILE [TEXT]", _("Send a file to the agent.")),
    "/history": ("/history [COUNT]", _("Show the latest messages.")),
    "/quit": ("/quit", _("Leave this chat, as Ctrl-D does.")),
}


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message or a command to send to the conversation."""

    text: str


@dataclass(frozen=True, slots=True)
class FileMessage:
    """A file to send to the agent, with a text."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction of the latest message; if empty, prefill the input line with that message."""

    text: str


@dataclass(frozen=True, slots=True)
class ShowHistory:
    """A request to show up to `most` messages of the history."""

    limit: int


@dataclass(frozen=True, slots=True)
class LeaveChat:
    """A request to leave the chat; the agent keeps running."""


ChatLine = ChatMessage | FileMessage | Correction | ShowHistory | LeaveChat


def parse_line(text: str) -> ChatLine:
    """Parse a line. Raises InvalidRequest for an incomplete or invalid command of the terminal."""
    word, _, rest = text.strip().partition(" ")
    match word:
        case "/edit":
            return Correction(rest.strip())
        case "/send":
            return _parse_send(rest.strip())
        case "/history":
            return _parse_history(rest.strip())
        case "/quit" | "/exit":
            return LeaveChat()
        case _:
            return ChatMessage(text)


def unquote_partial_name(text: str) -> str | None:
    """Return the unquoted beginning of a file name; None if the name is complete and text follows it."""
    if len(text) - len(text.rstrip("\\")) & 1:
        text = text[:-1]  # the character that this backslash escapes is not typed yet
    for closing in ("", "'", '"'):
        try:
            names = shlex.split(text + closing, comments=False)
        except ValueError:
            continue
        # a trailing space outside of quotes ends the name
        is_complete = not closing and text != text.rstrip() and not text.endswith("\\ ")
        return None if len(names) > 1 or is_complete else "".join(names)
    return None


def quote_name(name: str) -> str:
    """Return a file name quoted for `/send`: whitespace, quotes and backslashes escaped by a backslash.

    Quotes around the whole name would disable a leading `~`, and would end a name that is not complete.
    """
    return re.sub(r"""([\s'"\\])""", r"\\\1", name)


def _parse_send(rest: str) -> FileMessage:
    stream = io.StringIO(rest)
    words = shlex.shlex(stream, posix=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        name = words.get_token()
    except ValueError as error:
        raise InvalidRequest(
            _("A quote is not closed: {local_commands}.").format(
                local_commands=LOCAL_COMMANDS["/send"][0]
            )
        ) from error
    if not name:
        raise InvalidRequest(
            _("No file given: {local_commands}. Quote a name that contains spaces.").format(
                local_commands=LOCAL_COMMANDS["/send"][0]
            )
        )
    # the text after the name is sent unchanged
    return FileMessage(Path(name).expanduser(), stream.read().strip())


def _parse_history(rest: str) -> ShowHistory:
    if not rest:
        return ShowHistory(DEFAULT_HISTORY)
    if not (rest.isascii() and rest.isdigit() and 0 < int(rest) <= 1000):
        raise InvalidRequest(
            _("{local_commands}: a number from 1 to 1000.").format(
                local_commands=LOCAL_COMMANDS["/history"][0]
            )
        )
    return ShowHistory(int(rest))
