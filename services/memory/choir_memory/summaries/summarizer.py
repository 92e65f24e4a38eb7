"""Summarise a period, with the service's model if there is one, else by selecting sentences."""

from collections.abc import Sequence
from importlib.resources import files

import structlog

from choir_common.errors import ChoirError
from choir_memory.documents.model import Grain, merged_conversations
from choir_memory.llm.model import LanguageModel
from choir_memory.summaries.sentence_selection import SourceLine, select_sentences
from choir_memory.summaries.store import DuePeriod, PeriodSummary, SummarySource

log = structlog.get_logger("choir.memory.grains")

MAX_SUMMARY_CHARS: dict[Grain, int] = {
    "day": 1_600,
    "week": 2_400,
    "month": 3_200,
    "quarter": 4_000,
    "year": 4_800,
}
"""Maximum characters of a summary: longer for coarser grains, but shorter than the sources."""
MAX_MATERIAL = 60_000
"""Maximum characters sent to a model for one period; if there are more, a selection is sent."""
_CHARS_OF_WORD = 8
EMPTY_SUMMARY = "nothing"


class Summarizer:
    """Writer of summaries. After one failure of the model it only selects; each pass has its own instance."""

    def __init__(self, model: LanguageModel | None) -> None:
        self._model = model
        self._failed = False
        package = files("choir_memory.summaries")
        self._frame = package.joinpath("summary_prompt.md").read_text("utf-8")
        self._guidance = package.joinpath("summary_guidance.md").read_text("utf-8")

    @property
    def has_model(self) -> bool:
        """Return whether a model is available."""
        return self._model is not None and not self._failed

    async def summarize(
        self, due: DuePeriod, sources: Sequence[SummarySource], guidance: str | None = None
    ) -> PeriodSummary:
        """Return the summary of a period, with the least trust of its sources.

        `guidance` replaces the default text about what to keep.
        """
        trust = min(source.trust for source in sources)
        conversations = merged_conversations(source.conversations for source in sources)
        lines = [SourceLine(_prefix(due.grain, source), source.text) for source in sources]
        if self._model is not None and not self._failed:
            try:
                text = await self._ask(self._model, due, lines, guidance or self._guidance)
                return PeriodSummary(text, self._model.name, trust, conversations)
            except ChoirError as error:
                # the rest of this pass does without the model instead of waiting for its timeouts
                self._failed = True
                log.warning(
                    "language model failed; this pass summarises by selection", error=error.message
                )
        selection = select_sentences(lines, MAX_SUMMARY_CHARS[due.grain])
        return PeriodSummary(selection or EMPTY_SUMMARY, "selection", trust, conversations)

    async def _ask(
        self, model: LanguageModel, due: DuePeriod, lines: Sequence[SourceLine], guidance: str
    ) -> str:
        budget = MAX_SUMMARY_CHARS[due.grain]
        instructions = self._frame.format(
            grain=due.grain,
            period=due.period,
            words=budget // _CHARS_OF_WORD,
            guidance=guidance.strip(),
        )
        full_text = "\n".join(line.prefix + line.text for line in lines)
        material = (
            full_text if len(full_text) <= MAX_MATERIAL else select_sentences(lines, MAX_MATERIAL)
        )
        quoted = "\n".join(f"> {line}" for line in material.splitlines())
        # models may exceed the requested length
        return (await model.answer(instructions, quoted))[: 2 * budget]


def _prefix(grain: Grain, source: SummarySource) -> str:
    if grain == "day":
        return f"{source.speaker}: " if source.speaker else ""
    # a line selected for a week starts with its date; the lines of coarser grains already have one
    return f"{source.period} " if grain == "week" else ""
