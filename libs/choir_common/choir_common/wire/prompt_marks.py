"""How a user message begins in which Choir itself, not the user, shows something to a model.

Written by the agent's prompts; known to the rehearsal model, which must not take them for a user's words.
"""

FOLDED = "[Choir] What came earlier was folded into this record"
"""The reference summary of a lane."""
HANDED = "[Choir] What the present step of the skill was handed"
"""The input of a skill and the context that one of its steps gave the next."""
