"""Handlers of the commands that switch an agent's model or voice until it is restarted."""

from choir_control.commands.hands import Hands
from choir_control.commands.row import Call
from choir_control.commands.target import target_of


async def show_model(hands: Hands, call: Call) -> str:
    """Return the model that an agent uses and the available ones."""
    found = await hands.changes.choices(target_of(call))
    known = ", ".join(sorted(hands.configuration.current.config.models))
    core = f", its jobs with {found.core_llm}" if found.core_llm else ""
    return (
        f"{found.agent_id} thinks with {found.llm} ({found.model or 'gone from config.json'}){core}. "
        f"There are {known}."
    )


async def set_model(hands: Hands, call: Call) -> str:
    """Switch an agent to another model."""
    found = await hands.changes.set_model(target_of(call), call.values["name"])
    return f"{found.agent_id} thinks with {found.llm} from its next step on, until it is restarted."


async def show_voice(hands: Hands, call: Call) -> str:
    """Return the voice that an agent uses and the available ones."""
    found = await hands.changes.choices(target_of(call))
    known = ", ".join(sorted(hands.configuration.current.config.voice_profiles)) or "none"
    return f"{found.agent_id} speaks with {found.voice_profile or 'no voice'}. There are {known}."


async def set_voice(hands: Hands, call: Call) -> str:
    """Switch an agent to another voice."""
    found = await hands.changes.set_voice(target_of(call), call.values["name"])
    return f"{found.agent_id} speaks with {found.voice_profile} from now on, until it is restarted."
