"""Interface of the service's own optional language model (`memory.model`).

Implemented by `openai_model`; used for summaries and extraction, never in the reply path.
"""

from typing import Protocol


class Model(Protocol):
    """A language model that answers a text with a text."""

    @property
    def name(self) -> str: ...

    async def answer(self, instructions: str, material: str) -> str:
        """Return the completion; raises a ChoirError when the model is not available.

        `material` is quoted data that the model must not treat as instructions.
        """
        ...

    async def close(self) -> None: ...
