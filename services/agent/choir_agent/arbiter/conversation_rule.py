"""The rule on messages to other conversations of the agent: which there are, and whose. Pure.

A message to another conversation of the same person asks nothing. Any other one asks a person by default.
"""

from collections.abc import Sequence

from choir_agent.arbiter.rulings import CheckedCall
from choir_common.policy import CONVERSATION_PREFIX
from choir_common.wire.config import AgentConversation
from choir_common.wire.model import JsonObject

MESSAGE_SEND = "choir.message.send"


def own_recipients(conversations: Sequence[AgentConversation], dm: str) -> tuple[str, ...]:
    """Return `dm` and the other conversations of the person who alone talks there, as recipients of calls."""
    person = next((it.person for it in conversations if it.name == dm), "")
    own = (it.name for it in conversations if person and it.person == person)
    return tuple(f"{CONVERSATION_PREFIX}{name}" for name in dict.fromkeys((dm, *own)))


def conversation_refusal(
    checked: CheckedCall, conversations: Sequence[AgentConversation], dm: str
) -> JsonObject | None:
    """Return why a message cannot go to the conversation that its call names, or None."""
    target = checked.arguments.get("conversation")
    if checked.tool.manifest.name != MESSAGE_SEND or target is None or target == dm:
        return None
    names = [it.name for it in conversations]
    if target not in names:
        message = f"You have no conversation {str(target)[:64]!r} now. Leave it out to write here."
        return {"code": "unknown_conversation", "message": message, "conversations": [*names]}
    is_own = f"{CONVERSATION_PREFIX}{target}" in own_recipients(conversations, dm)
    if checked.arguments.get("files") and not is_own:
        # A yes would cover a path, and the file could change until it is sent.
        message = "Files can be sent to conversations of the same person only; send the text alone."
        return {"code": "files_stay_with_person", "message": message}
    return None
