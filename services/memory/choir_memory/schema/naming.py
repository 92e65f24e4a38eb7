"""Schema names of agents. Used by every store to fill in its statements."""

from choir_common.errors import BadInput
from choir_common.ids import AGENT_ID_RULE, is_agent_id

SHARED_SCHEMA = "choir_memory"
# Names of control's and this service's own schemas; an agent with such a name would share them.
RESERVED = frozenset({"control", "memory"})


def schema_name(agent_id: str) -> str:
    """Return `choir_<agent_id>`, the name of the agent's schema and role; it must be quoted in SQL.

    Raises BadInput for a string that is not a valid agent id, and for a reserved name.
    """
    if not is_agent_id(agent_id):
        raise BadInput(f"{agent_id[:60]!r} names no agent: {AGENT_ID_RULE}.")
    if agent_id in RESERVED:
        raise BadInput(f"No agent can be called {agent_id}: Choir keeps its own tables there.")
    return f"choir_{agent_id}"


def qualified(statement: str, agent_id: str) -> str:
    """Return `statement` with `{schema}` replaced by the agent's quoted schema."""
    return statement.replace("{schema}", f'"{schema_name(agent_id)}"')
