"""OpenAI's strict fake, whose answers follow a score as those of the rehearsal model do.

A journey can thus script a model by rules, and still have a provider that refuses requests without the key or
with a broken format, records each prompt, and can fail on command (`outage`).
"""

from choir_local.rehearsal.answers import choose_answer
from choir_local.rehearsal.score import Score
from choir_local.rehearsal.turn import ChatRequest, read_turn
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import (
    Answer,
    Call,
    ErrorFault,
    Hang,
    RecordedRequest,
    Step,
)


class ScoredOpenAi(OpenAi):
    """OpenAI with a score; scripted steps come first. Every error of the score is an invalid request."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self._score = score

    def take_step(self, request: RecordedRequest) -> Step:
        step = super().take_step(request)
        if step is not self.default:
            return step
        turn = read_turn(ChatRequest.model_validate_json(request.raw))
        chosen = choose_answer(turn, self._score, "Hello.")
        if chosen.hang:
            return Hang()
        if chosen.faults:
            return ErrorFault("invalid", "This cannot be done.")
        calls = tuple(Call(call.name, call.arguments) for call in chosen.calls)
        return Answer(chosen.text or "", calls, pause_s=chosen.chunk_delay_ms / 1000)

    @property
    def prompts(self) -> bytes:
        """Every request body so far."""
        return b"\n".join(request.raw for request in self.requests)
