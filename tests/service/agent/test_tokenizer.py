"""The offline tokenizer: a real child process that counts and is gone."""

from choir_agent.budgets.limits import TokenBudget
from choir_agent.models.model_wrappers import CallPurpose, MeteredModel
from choir_agent.models.tokenizer import Tokenizer
from choir_agent.working_memory.token_estimator import TokenEstimator
from choir_common.clock import SystemClock
from choir_common.wire.config import Budgets, ModelConfig
from choir_models.model import NO_LISTENER, Completion, OutputListener, Prompt
from tests.support.agent_fakes import EmptySession, NoMoneyBudget, RecordingCommitter, settings_with

MODEL = ModelConfig(model="m", endpoint="http://nowhere")
SENTENCE = "The agent proposes, the control plane decides, the log remembers. "


class Uncounting:
    """A provider that sends no usage."""

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        return Completion(
            text="hello world",
            calls=(),
            model="m",
            finish_reason="stop",
            prompt_tokens=0,
            completion_tokens=0,
            duration_ms=1.0,
        )

    async def close(self) -> None:
        pass


async def test_texts_are_counted_exactly_and_the_child_is_gone() -> None:
    counts = await Tokenizer().count("hello world", "", 'a "quoted"\nline', SENTENCE * 200)
    assert counts == (2, 0, 5, 2601)


class RecordingCounter:
    """The real tokenizer; records the lengths of the prompts that it counted."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self._tokenizer = Tokenizer()

    async def count(self, *texts: str) -> tuple[int, ...] | None:
        self.lengths.append(len(texts[0]))
        return await self._tokenizer.count(*texts)


async def test_what_a_provider_does_not_count_is_counted_offline_until_the_prompt_has_grown() -> (
    None
):
    counter = RecordingCounter()
    purse = TokenBudget(EmptySession(), settings_with(Budgets()))
    meter = TokenEstimator()
    metered = MeteredModel(
        Uncounting(),
        budget=purse,
        money=NoMoneyBudget(),
        estimator=meter,
        counter=counter,
        committer=RecordingCommitter(),
        clock=SystemClock(),
    )
    for times in (200, 210, 400):
        prompt = Prompt((SENTENCE.encode() * times,), b"")
        meter.record_prompt_size("edge", len(SENTENCE) * times)
        async with metered.complete(
            MODEL, None, prompt, CallPurpose(name="m", lane="edge")
        ) as thought:
            meter.record_token_count("edge", thought.prompt_tokens)
        assert 13 * times <= thought.prompt_tokens <= 13 * times * 1.3
        assert thought.completion_tokens >= 2
    assert counter.lengths == [len(SENTENCE) * 200, len(SENTENCE) * 400]
