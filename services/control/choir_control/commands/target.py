"""Which agent a command means, and whether who gave it may. Used by the handlers."""

from choir_common.errors import Conflict, Forbidden, NotFound
from choir_control.commands.hands import Hands
from choir_control.commands.row import Call
from choir_control.operations.store import Asker
from choir_control.sessions.record import SessionRow

AGENT = "agent"


def target_of(call: Call) -> str:
    """Return the agent a command means: the one it names, else the conversation's own.

    Raises Forbidden when a regular conversation names another one, NotFound when there is none.
    """
    named = call.values.get(AGENT)
    if named is not None and not call.is_admin and named != call.bound:
        own = f"It reaches {call.bound}, and needs no name." if call.bound else "It has none."
        raise Forbidden(f"This conversation is not an admin's. {own} Nothing was done.")
    agent_id = named or call.bound
    if agent_id is None:
        raise NotFound("No agent is bound to this conversation, so nothing was done.")
    return agent_id


def asker_of(hands: Hands, call: Call) -> Asker:
    """Return the conversation a command was given in, as one that is told how it ends."""
    return Asker(call.dm, hands.configuration.current.gateway_of(call.dm) or "")


async def session_of(hands: Hands, call: Call) -> SessionRow:
    """Return the live session of the agent that is meant. Raises Conflict when it does not run."""
    agent_id = target_of(call)
    hands.configuration.current.agent(agent_id)
    session = await hands.sessions.live_of(agent_id)
    if session is None:
        raise Conflict(f"{agent_id} is not running, so there is nothing to show.")
    return session
