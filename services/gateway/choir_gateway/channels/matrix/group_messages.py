"""Messages of groups: which of them are for the agent, and what their text is. Pure.

Called by `group_receiver`. Notices, which are from programs, are never for the agent.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from choir_common.wire.speakers import GroupMember
from choir_gateway.channels.matrix.events import MessageContent

# What people write between the name of a bot and their text.
AFTER_NAME = r"[\s,:;]*"


@dataclass(frozen=True, slots=True)
class BotNames:
    """How people name the bot in a room."""

    user_id: str
    display_name: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """A text that begins with a name; the group `mark` if a colon or comma follows."""
        localpart = self.user_id.removeprefix("@").partition(":")[0]
        names = {self.display_name.strip(), localpart} - {""}
        # The longest first: a name may begin with another one.
        choice = "|".join(re.escape(it) for it in sorted(names, key=len, reverse=True))
        # `@choir:example.net` is a user of another homeserver, not the name `@choir`.
        user = rf"{re.escape(self.user_id)}(?![\w-]|\.\w)|@(?:{choice})(?!:\S)"
        end = rf"(?:(?P<mark>\s*[:,])|(?!\w)){AFTER_NAME}"
        return re.compile(rf"\s*(?:{user}|(?:{choice})){end}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What a message of a group has besides its content."""

    author: GroupMember
    names: BotNames
    thread: str | None = None


def is_addressed(content: MessageContent, names: BotNames) -> bool:
    """Return whether a message mentions the bot, or begins with its name as in `choir: hello`."""
    first = names.pattern.match(content.body)
    if first is not None and first["mark"] is not None:
        return True
    if isinstance(content.mentions, dict):
        users = content.mentions.get("user_ids")
        return isinstance(users, list) and names.user_id in users
    # Clients from before Matrix 1.7 write a link, or the id.
    html = content.formatted_body if isinstance(content.formatted_body, str) else ""
    is_linked = f"https://matrix.to/#/{names.user_id}" in unquote(html)
    return is_linked or _words(names.user_id).search(content.body) is not None


def remove_name(text: str, names: BotNames) -> str:
    """Return a text without the bot's name at its beginning, unless nothing else is in it."""
    first = names.pattern.match(text)
    return (text[first.end() :] or text) if first else text


def _words(user_id: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w@]){re.escape(user_id)}(?![\w.-])")
