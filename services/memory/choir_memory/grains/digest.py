"""Say in few words what a period held: by the service's model if there is one, else by selection.

Called by `consolidate`; next is `select`, or the model.
"""

from collections.abc import Sequence
from importlib.resources import files

import structlog

from choir_common.errors import ChoirError
from choir_memory.documents.kinds import Grain
from choir_memory.grains.select import Line, select
from choir_memory.grains.store import Due, Source, Summary
from choir_memory.layers.model import Model

log = structlog.get_logger("choir.memory.grains")

BUDGETS: dict[Grain, int] = {
    "day": 1_600,
    "week": 2_400,
    "month": 3_200,
    "quarter": 4_000,
    "year": 4_800,
}
"""Characters of a summary: a coarser one is longer, but shorter than what it is made of."""
MAX_MATERIAL = 60_000
"""Characters a model is given of one period; of more, the selection."""
_CHARS_OF_WORD = 8
NOTHING = "nothing"


class Digester:
    """Makes summaries; after a model failed once it selects: each round has one of its own."""

    def __init__(self, model: Model | None) -> None:
        self._model = model
        self._failed = False
        self._instructions = (
            files("choir_memory.grains").joinpath("summarise.md").read_text("utf-8")
        )

    @property
    def has_model(self) -> bool:
        """Tell whether a model can be asked now."""
        return self._model is not None and not self._failed

    async def digest(self, due: Due, sources: Sequence[Source]) -> Summary:
        """Return the summary of a period; trusted as little as the least of its sources."""
        trust = min(source.trust for source in sources)
        lines = [Line(_prefix(due.grain, source), source.text) for source in sources]
        if self._model is not None and not self._failed:
            try:
                return Summary(await self._ask(self._model, due, lines), self._model.name, trust)
            except ChoirError as error:
                # the rest of this pass goes without it, instead of waiting for its time-outs
                self._failed = True
                log.warning("summaries go without the model for now", error=error.message)
        chosen = select(lines, BUDGETS[due.grain])
        return Summary(chosen or NOTHING, "selection", trust)

    async def _ask(self, model: Model, due: Due, lines: Sequence[Line]) -> str:
        budget = BUDGETS[due.grain]
        instructions = self._instructions.format(
            grain=due.grain, period=due.period, words=budget // _CHARS_OF_WORD
        )
        whole = "\n".join(line.prefix + line.text for line in lines)
        material = whole if len(whole) <= MAX_MATERIAL else select(lines, MAX_MATERIAL)
        quoted = "\n".join(f"> {line}" for line in material.splitlines())
        return (await model.answer(instructions, quoted))[: 2 * budget]


def _prefix(grain: Grain, source: Source) -> str:
    if grain == "day":
        return f"{source.speaker}: " if source.speaker else ""
    # a selected line of a week says which day it was; in a month's it already stands there
    return f"{source.period} " if grain == "week" else ""
