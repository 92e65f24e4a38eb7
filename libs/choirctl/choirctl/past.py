"""Read what was said in a conversation before, both sides, from the logs of its agent's newest sessions.

Called by `talk` when it opens, and for `/history`.
"""

from dataclasses import dataclass
from datetime import datetime

from rich.markup import escape

from choir_common.visible_text import make_visible
from choir_common.wire.events import Event
from choir_common.wire.operator import SessionView
from choirctl.control_api import PAGE, ControlApi

SESSIONS = 3  # an agent that was restarted just now goes on in a new one
REACH = 2_000  # events looked through, newest first: a conversation of days
SHOWN_LINES = 3


@dataclass(frozen=True, slots=True)
class Past:
    """The newest things said, oldest first, and how far each session's log was read."""

    said: tuple[Event, ...] = ()
    read_to: tuple[tuple[str, int], ...] = ()

    def holds(self, session_id: str | None, rev: int | None) -> bool:
        """Tell whether something stands in what was read."""
        return any(session_id == name and (rev or 0) <= head for name, head in self.read_to)


async def read_past(api: ControlApi, agent_id: str, dm: str, most: int) -> Past:
    """Return up to `most` of what was said last in a DM. Raises NotFound for an unknown agent."""
    sessions = await api.sessions(agent_id, SESSIONS)
    said: list[Event] = []
    for session in sessions:
        said = [*await _said(api, session, dm, most - len(said)), *said]
        if len(said) >= most:
            break
    return Past(tuple(said), tuple((s.session_id, s.head_rev) for s in sessions))


async def _said(api: ControlApi, session: SessionView, dm: str, most: int) -> list[Event]:
    """Return a session's newest words, read backwards page by page."""
    found: list[Event] = []
    upper, lowest = session.head_rev, max(0, session.head_rev - REACH)
    while upper > lowest and len(found) < most:
        lower = max(lowest, upper - PAGE)
        page = await api.events(session.session_id, lower)
        of_dm = [e for e in page.items if e.rev <= upper and _is_said(e, dm)]
        found = [*of_dm, *found]
        upper = lower
    return found[-most:]


def _is_said(event: Event, dm: str) -> bool:
    return event.type in ("user_msg", "reply") and event.payload.get("dm") == dm


def past_line(event: Event, agent_id: str, *, whole: bool) -> str:
    """Return one thing said, and when by the clock of this machine, cut to some lines unless `whole`."""
    who = "you" if event.type == "user_msg" else agent_id
    lines = make_visible(str(event.payload.get("text", ""))).strip().split("\n")
    if not whole and len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], "…"]
    at = datetime.fromisoformat(event.at).astimezone()
    text = "\n  ".join(lines)
    return f"[dim]{at:%m-%d %H:%M} {escape(who)}: {escape(text)}[/]"
