"""History of a conversation, both sides, read from the logs of its agent's newest sessions.

Called by `terminal_chat` when it opens, and for `/history`.
"""

from dataclasses import dataclass
from datetime import datetime

from choir_client.operations import PAGE_SIZE
from choir_common.escape_text import escape_hidden
from choir_common.wire.events import Event
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.operator import SessionView
from choirctl.api.control import ControlClient
from choirctl.output.printing import escape

MAX_SESSIONS = 3  # an agent that was restarted recently continues in a new session
MAX_EVENTS = 2_000  # events read per session, newest first: enough for a conversation of days
SHOWN_LINES = 3


@dataclass(frozen=True, slots=True)
class History:
    """The newest messages of a conversation, oldest first, and the head of each session that was read."""

    messages: tuple[Event, ...] = ()
    heads: tuple[tuple[str, int], ...] = ()

    def contains(self, session_id: str | None, rev: int | None) -> bool:
        """Return whether this revision of a session's log was already read."""
        return any(session_id == name and (rev or 0) <= head for name, head in self.heads)


async def read_history(api: ControlClient, agent_id: str, dm: str, most: int) -> History:
    """Return up to `most` of the newest messages in a DM. Raises NotFound for an unknown agent."""
    newest = await api.sessions.list(agent_id, MAX_SESSIONS)
    # the log of an ended incognito session is erased
    sessions = [it for it in newest if it.ended_at is None or it.memory_mode != INCOGNITO]
    messages: list[Event] = []
    for session in sessions:
        messages = [*await _read_messages(api, session, dm, most - len(messages)), *messages]
        if len(messages) >= most:
            break
    return History(tuple(messages), tuple((s.session_id, s.head_rev) for s in sessions))


async def _read_messages(
    api: ControlClient, session: SessionView, dm: str, most: int
) -> list[Event]:
    """Return up to `most` of a session's newest messages, reading the log backwards page by page."""
    messages: list[Event] = []
    upper, lowest = session.head_rev, max(0, session.head_rev - MAX_EVENTS)
    while upper > lowest and len(messages) < most:
        lower = max(lowest, upper - PAGE_SIZE)
        page = await api.sessions.events(session.session_id, lower)
        of_dm = [e for e in page.items if e.rev <= upper and _is_message(e, dm)]
        messages = [*of_dm, *messages]
        upper = lower
    return messages[-most:]


def _is_message(event: Event, dm: str) -> bool:
    return event.type in ("user_msg", "reply") and event.payload.get("dm") == dm


def history_line(event: Event, agent_id: str, *, full: bool) -> str:
    """Return a message with its local time as markup, truncated to a few lines unless `full`."""
    who = "you" if event.type == "user_msg" else agent_id
    lines = escape_hidden(str(event.payload.get("text", ""))).strip().split("\n")
    if not full and len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], "…"]
    at = datetime.fromisoformat(event.at).astimezone()
    text = "\n  ".join(lines)
    return f"[dim]{at:%m-%d %H:%M} {escape(who)}: {escape(text)}[/]"
