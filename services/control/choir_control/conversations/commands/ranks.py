"""Which commands the people of a conversation may type. Pure."""

from typing import assert_never

from choir_control.configuration.people import Rank
from choir_control.conversations.commands.spec import CommandScope, CommandSpec, MutationAction

GUEST_COMMANDS = frozenset({"/help", "/status"})
# Changes of what is the member's own; all other changes are for owners and admins.
_MEMBER_CHANGES = ("/schedule", "/link", "/follow", "/language")
# Money and its limits are for owners and admins.
_NOT_FOR_MEMBERS = frozenset({"/continue", "/cost"})
FOR_DECIDERS = frozenset({"/continue"})
"""Commands that go to the agent, and only from people who decide."""


def is_for_rank(row: CommandSpec, rank: Rank) -> bool:
    """Return whether a command may be typed in a conversation of this rank."""
    name = row.typed_form or ""
    match rank:
        case "admin":
            return True
        case "user":
            return row.scope is CommandScope.DM
        case "member":
            changes = isinstance(row.action, MutationAction)
            is_own = not changes or name.startswith(_MEMBER_CHANGES)
            return row.scope is CommandScope.DM and is_own and name not in _NOT_FOR_MEMBERS
        case "guest":
            return name in GUEST_COMMANDS
        case _:
            assert_never(rank)
