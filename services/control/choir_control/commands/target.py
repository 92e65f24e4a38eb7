"""Target agent and session of a command, and the permission check. Used by the handlers."""

from choir_common.errors import Conflict, Forbidden, NotFound
from choir_control.commands.hands import Hands
from choir_control.commands.row import Call
from choir_control.operations.store import Asker
from choir_control.sessions.record import SessionRow

AGENT = "agent"


def target_of(call: Call) -> str:
    """Return the agent that a command targets: the named one, or else the conversation's own.

    Raises Forbidden when a regular conversation names another agent, NotFound when it has none.
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
    """Return the conversation of a command, as the recipient of the result of an operation."""
    return Asker(call.dm, hands.configuration.current.gateway_of(call.dm) or "")


async def session_of(hands: Hands, call: Call) -> SessionRow:
    """Return the live session of the target agent. Raises Conflict when the agent is not running."""
    agent_id = target_of(call)
    hands.configuration.current.agent(agent_id)
    session = await hands.sessions.live_of(agent_id)
    if session is None:
        raise Conflict(f"{agent_id} is not running, so there is nothing to show.")
    return session
