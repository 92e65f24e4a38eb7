"""Endpoint for known failures of a tool (`choir_common.clients.memory_hints`).

Built by `app`; next is `layers.tool_errors`.
"""

from dataclasses import dataclass

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.wire.memory_hints import HintsWanted, ToolHints
from choir_memory.layers.tool_errors import ToolErrors


@dataclass(frozen=True, slots=True)
class HintDoor:
    """Endpoint that control calls for an agent after a tool call failed."""

    errors: ToolErrors

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoint."""
        return (Endpoint(subjects.memory_hints(), HintsWanted, self._hints),)

    async def _hints(self, wanted: HintsWanted) -> ToolHints:
        # not retried: the failed call waits for this answer
        return await self.errors.hints(wanted)
