"""The offline tokenizer: a real child process that counts and is gone."""

from choir_agent.budgets.reserve import Purse
from choir_agent.credentials.own_children import OwnChildren
from choir_agent.log.state import SessionState
from choir_agent.memory.tokens import TokenMeter
from choir_agent.models.metered import MeteredModel
from choir_agent.models.model import Thought
from choir_agent.models.tokenizer import Tokenizer
from choir_agent.prompt.assemble import Prompt
from choir_common.wire.config import Budgets, ModelConfig

MODEL = ModelConfig(model="m", endpoint="http://nowhere")
SENTENCE = "The agent proposes, the control plane decides, the log remembers. "


class Uncounting:
    """A provider that sends no usage."""

    async def think(self, settings: ModelConfig, api_key: str | None, prompt: Prompt) -> Thought:
        return Thought(
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
    own = OwnChildren()
    counts = await Tokenizer(own).count("hello world", "", 'a "quoted"\nline', SENTENCE * 200)
    assert counts == (2, 0, 5, 2601)
    assert not own.pids
    assert not own.starting


async def test_what_a_provider_does_not_count_is_counted_offline_until_the_prompt_has_grown() -> (
    None
):
    asked: list[int] = []
    tokenizer = Tokenizer(OwnChildren())

    async def count(*texts: str) -> tuple[int, ...] | None:
        asked.append(len(texts[0]))
        return await tokenizer.count(*texts)

    purse = Purse(SessionState, Budgets)
    meter = TokenMeter()
    metered = MeteredModel(Uncounting(), purse, meter, count)
    for times in (200, 210, 400):
        prompt = Prompt((SENTENCE.encode() * times,), b"")
        meter.asked("edge", len(SENTENCE) * times)
        async with metered.thought(MODEL, None, prompt, "edge") as thought:
            meter.counted("edge", thought.prompt_tokens)
        assert 13 * times <= thought.prompt_tokens <= 13 * times * 1.3
        assert thought.completion_tokens >= 2
    assert asked == [len(SENTENCE) * 200, len(SENTENCE) * 400]
