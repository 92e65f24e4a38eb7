"""What a harness is told: the briefing of its job, further instructions, and how to go on. Pure."""

from collections.abc import Sequence

from choir_agent.prompt.event_messages import render_briefing
from choir_common.wire.events import CoreStarted

RULES = (
    "You work in the current directory, alone and in the background: nobody answers questions. Your last "
    "message is the result of the task, so say in it what you have done and found."
)
RESUMED = (
    "The program was restarted while you worked. Look at what is done already, and go on with the task where "
    "you stopped."
)


def first_prompt(briefing: CoreStarted, instructions: Sequence[str]) -> str:
    """Return the first prompt of a job."""
    return "\n\n".join((render_briefing(briefing), RULES, *_further(instructions)))


def next_prompt(instructions: Sequence[str]) -> str:
    """Return the prompt with instructions that came while it worked, or about its result."""
    return "\n\n".join(_further(instructions)) or RESUMED


def resume_prompt(instructions: Sequence[str]) -> str:
    """Return the prompt after a restart."""
    return "\n\n".join((RESUMED, *_further(instructions)))


def _further(instructions: Sequence[str]) -> list[str]:
    return [f"Further instructions:\n\n{text}" for text in instructions]
