"""The argument `conversation` of `choir.message.send` as models see it. Pure.

The names depend on the current settings, and with a single conversation the argument would only take room.
The arbiter validates calls against the manifest, which always has it.
"""

from collections.abc import Sequence
from dataclasses import replace

from choir_agent.tools.builtin.message_send import CONVERSATION, MANIFEST
from choir_agent.tools.manifest import ToolManifest
from choir_common.wire.config import AgentConversation
from choir_common.wire.model import JsonObject

Destinations = tuple[tuple[str, str], ...]
"""Names of conversations, each with its person."""


def find_destinations(conversations: Sequence[AgentConversation], dm: str) -> Destinations:
    """Return the other conversations to which a lane of `dm` may send."""
    return tuple((it.name, it.person) for it in conversations if it.name != dm)


def offer_destinations(manifest: ToolManifest, others: Destinations) -> ToolManifest:
    """Return the manifest with the conversations that may be named, or without the argument."""
    if manifest.name != MANIFEST.name:
        return manifest
    properties = manifest.llm.parameters.get("properties")
    offered = {**properties} if isinstance(properties, dict) else {}
    if others:
        people = ", ".join(f"{name} is {person}'s" for name, person in others if person)
        offered[CONVERSATION] = {
            "type": "string",
            "enum": [name for name, _ in others],
            "description": f"to send it there instead of here{f'; {people}' if people else ''}",
        }
    else:
        offered.pop(CONVERSATION, None)
    parameters: JsonObject = {**manifest.llm.parameters, "properties": offered}
    return replace(manifest, llm=replace(manifest.llm, parameters=parameters))
