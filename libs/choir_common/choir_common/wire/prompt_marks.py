"""First lines of prompt messages that come from Choir itself and not from the user.

Written by the agent's prompts. The rehearsal model uses them to skip these messages.
"""

SUMMARY_HEADING = "[Choir] Summary of earlier events"
"""A lane's reference summary."""
SKILL_INPUT_HEADING = "[Choir] Input of the current skill step"
"""The input of a skill and the context that one of its steps passed to the next."""
