"""Handlers of the commands about sessions: the newest events as readable lines."""

from choir_common.errors import NotFound
from choir_common.wire.events import Event
from choir_control.commands.hands import Hands
from choir_control.commands.row import Call
from choir_control.commands.target import session_of
from choir_control.inbox.words import no_job_text

DEFAULT_EVENTS = 10
LONGEST = 120
# payload keys, most informative first
GIST = ("text", "tool", "status", "outcome", "job", "reason", "summary", "error", "state")


async def show_events(hands: Hands, call: Call) -> str:
    """Return the newest events of a session, oldest first."""
    session = await session_of(hands, call)
    count = int(call.values.get("count", DEFAULT_EVENTS))
    found = await hands.events.read(session.session_id, max(0, session.head.rev - count), count)
    return "\n".join(event_line(event) for event in found) or "Nothing has happened yet."


async def check_job(hands: Hands, call: Call) -> None:
    """Raise NotFound when the conversation's session has no open core job of the given name."""
    job = call.values.get("job")
    if job is None or call.session_id is None:
        return
    open_jobs = await hands.events.open_jobs(call.session_id)
    if job not in open_jobs:
        raise NotFound(no_job_text(call.bound or "", job, open_jobs))


def event_line(event: Event) -> str:
    """Return an event as one line."""
    gist = next((str(event.payload[key]) for key in GIST if event.payload.get(key)), "")
    flat = " ".join(gist.split())
    short = flat if len(flat) <= LONGEST else f"{flat[:LONGEST]}…"
    words = event.type.replace("_", " ")
    return f"{event.rev} {event.at[11:19]} {event.lane}: {words}" + (f": {short}" if short else "")
