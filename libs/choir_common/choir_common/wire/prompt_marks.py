"""First lines of prompt messages that come from Choir itself and not from the user.

Written by the agent's prompts. The rehearsal model uses them to skip these messages.
"""

SUMMARY_HEADING = "[Choir] What came earlier was folded into this record"
"""A lane's reference summary."""
SKILL_INPUT_HEADING = "[Choir] What the present step of the skill was handed"
"""The input of a skill and the context that one of its steps passed to the next."""
