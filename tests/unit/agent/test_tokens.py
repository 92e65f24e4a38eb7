"""The estimate of tokens errs on the safe side (docs/decisions/0013); counts are those of o200k_base."""

import orjson
import pytest

from choir_agent.working_memory.token_estimator import TokenEstimator, prompt_size
from choir_models.model import Prompt

# a text, and its tokens said 45 and 50 times
COUNTED = {
    "The agent proposes, the control plane decides, the log remembers. Nobody calls back up. ": (
        811,
        901,
    ),
    "def take_in(self, event: Committed) -> None:\n    payload = event.payload\n    match payload:\n": (
        1035,
        1150,
    ),
    '{"id":7,"name":"n7","ok":true,"tags":["a","b"]},': (901, 1001),
    '{ url = "https://files.example/9a/3f/x-1.2.tar.gz", hash = "sha256:9f86d081884c7d65" }, ': (
        1801,
        2001,
    ),
    "Die Bundesregierung hat gestern einen Gesetzentwurf zum Straßenverkehr beschlossen. ": (
        631,
        701,
    ),
    "Сегодня мы ходили на рынок и купили свежие овощи, потом приготовили ужин. ": (901, 1001),
    "我们今天去市场买了一些新鲜的蔬菜和水果，然后回家做了一顿丰盛的晚餐。": (1215, 1350),
    "😀🎉🚀👨‍👩‍👧‍👦🇩🇪 ": (901, 1001),
}


@pytest.mark.parametrize("text", COUNTED)
def test_an_estimate_is_no_less_than_what_a_tokenizer_counts(text: str) -> None:
    prompt = Prompt((orjson.dumps({"role": "user", "content": text * 50}),))
    assert COUNTED[text][1] <= TokenEstimator().tokens("edge", prompt_size(prompt))


@pytest.mark.parametrize("text", COUNTED)
def test_once_the_provider_has_counted_the_estimate_is_close(text: str) -> None:
    before, after = COUNTED[text]
    meter = TokenEstimator()
    meter.record_prompt_size("edge", len(text.encode()) * 45)
    meter.record_token_count("edge", before)
    assert after <= meter.tokens("edge", len(text.encode()) * 50) <= after * 1.3
