"""First lines of prompt messages that come from Choir itself and not from the user.

Written by the agent's prompts. The rehearsal model uses them to skip these messages.
"""

FOLDED = "[Choir] What came earlier was folded into this record"
"""A lane's reference summary."""
HANDED = "[Choir] What the present step of the skill was handed"
"""The input of a skill and the context that one of its steps passed to the next."""
