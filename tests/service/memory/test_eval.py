"""What memory must find, through the whole service with its offline model: the bars of `make eval`."""

from pathlib import Path

from tests.eval.formats import read_jsonl
from tests.eval.harness import running_harness
from tests.eval.measures import mean

DATA = Path("tests/eval/data")
CHINESE_R5 = 0.96


async def test_events_in_traditional_chinese_are_among_the_first_five() -> None:
    (events,) = read_jsonl(DATA / "events_zh.jsonl")
    assert len(events.units) >= 60
    assert len(events.questions) >= 40
    async with running_harness() as harness:
        written = await harness.write(0, events)
        await harness.wait_for_vectors(lambda _: None, 120)
        measured = mean(await harness.measure(written))
    assert measured.turn_r5 >= CHINESE_R5, measured
    assert measured.mrr >= 0.85, measured


async def test_each_arm_can_be_taken_away_and_none_is_for_show() -> None:
    garden, _ = read_jsonl(DATA / "notes.jsonl")
    async with running_harness() as harness:
        written = await harness.write(0, garden)
        await harness.wait_for_vectors(lambda _: None, 120)
        assert mean(await harness.measure(written)).turn_r5 == 1.0
        by_words = await harness.ask(written, "How do they keep the deer out?", ("text",))
        (asked,) = by_words.hits
        assert "What shall we do about the deer?" in asked.text
        with_window = await harness.ask(written, "the deer?", ("text", "window"))
        assert "A fence" in with_window.hits[1].text + with_window.hits[0].text
        in_may = await harness.ask(written, "what happened in May", ("vector", "time"))
        assert {arm.arm for arm in in_may.hits[0].arms} == {"vector", "time"}
