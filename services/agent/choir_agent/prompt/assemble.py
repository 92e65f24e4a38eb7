"""Put the prompt together in the order of spec 11.3.

Called by the turn before each model call; what comes next is `models`. Closed turns are rendered once and
kept, so a call costs a join, however long the history.
"""

from dataclasses import dataclass

from choir_agent.memory.window import WindowTurn
from choir_agent.prompt.render import ModelName, system_message, turn_messages


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages and tools as JSON, ready to be joined into a request."""

    messages: tuple[bytes, ...]
    tools: bytes = b"[]"
    """The tools the model may propose, as a JSON list."""


class Assembler:
    """Instructions and identity first, then the window; the newest turn is the user's message."""

    def __init__(self, static_text: str, model_name: ModelName) -> None:
        self._system = system_message(static_text)
        self._model_name = model_name
        self._rendered: dict[str, list[bytes]] = {}

    def assemble(
        self, turns: tuple[WindowTurn, ...], tools: bytes, summary: str | None = None
    ) -> Prompt:
        """Return the prompt for `turns`, of which the last one is open."""
        messages = [self._system]
        if summary:
            messages.append(system_message(summary))
        kept: dict[str, list[bytes]] = {}
        for turn in turns[:-1]:
            rendered = self._rendered.get(turn.turn_id)
            if rendered is None:
                rendered = turn_messages(turn.events, self._model_name)
            kept[turn.turn_id] = rendered
            messages += rendered
        self._rendered = kept
        if turns:
            messages += turn_messages(turns[-1].events, self._model_name)
        return Prompt(tuple(messages), tools)
