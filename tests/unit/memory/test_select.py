"""Choosing the sentences that say most."""

from hypothesis import given
from hypothesis import strategies as st

from choir_memory.summaries.sentence_selection import MAX_SENTENCE, SourceLine, select_sentences

TALK = (
    SourceLine(
        "Ana: ", "Good morning. The roof of the barn leaks, the carpenter comes on Tuesday."
    ),
    SourceLine("Bot: ", "Ok. Noted: the carpenter comes on Tuesday to mend the barn's roof."),
    SourceLine("Ana: ", "The carpenter wants 1,200 euros for the roof of the barn."),
    SourceLine("Ana: ", "Yes, please."),
)


def test_what_the_period_is_about_is_kept_in_its_order() -> None:
    chosen = select_sentences(TALK, 150).splitlines()
    assert chosen[-1] == "Ana: The carpenter wants 1,200 euros for the roof of the barn."
    assert "Yes, please" not in "".join(chosen)
    assert "Good morning" not in "".join(chosen)


def test_the_same_is_not_said_twice() -> None:
    line = SourceLine("", "The spare key lies under the blue flowerpot.")
    assert select_sentences([line] * 3, 1_000) == line.text


def test_chinese_is_cut_at_its_own_full_stops() -> None:
    text = "今天木匠來修理穀倉的屋頂。他要一千二百歐元。好的。"
    chosen = select_sentences([SourceLine("", text)], 1_000).splitlines()
    assert chosen == ["今天木匠來修理穀倉的屋頂。", "他要一千二百歐元。"]


@given(
    st.lists(st.tuples(st.sampled_from(["", "Ana: "]), st.text(max_size=300)), max_size=12),
    st.integers(0, 500),
)
def test_a_selection_keeps_to_its_budget_and_invents_nothing(
    given_lines: list[tuple[str, str]], budget: int
) -> None:
    lines = [SourceLine(prefix, text) for prefix, text in given_lines]
    chosen = select_sentences(lines, budget)
    assert len(chosen) <= budget
    assert select_sentences(lines, budget) == chosen
    whole = " ".join(" ".join((line.prefix + line.text).split()) for line in lines)
    for shown in chosen.splitlines():
        assert shown.removeprefix("Ana: ")[:MAX_SENTENCE] in whole
