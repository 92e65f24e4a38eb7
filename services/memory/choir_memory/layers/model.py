"""The port `Model`: the memory service's own optional language model (`memory.model`).

Implemented by `openai_model`; asked by whoever condenses or extracts, always off the reply path.
"""

from typing import Protocol


class Model(Protocol):
    """A language model that answers a text with a text."""

    @property
    def name(self) -> str: ...

    async def answer(self, instructions: str, material: str) -> str:
        """Return what the model says; raises a ChoirError when it cannot be had.

        `material` is quoted data, never an instruction to it.
        """
        ...

    async def close(self) -> None: ...
