"""A long text is cut to the part that a question is about."""

from hypothesis import given
from hypothesis import strategies as st

from choir_memory.text.questions import content_terms
from choir_memory.text.splitting import extract_excerpt

FILLER = "Nothing of note was said here. "


def test_a_short_text_stays_whole() -> None:
    assert extract_excerpt("The kite is blue.", content_terms("kite"), 40) == "The kite is blue."


def test_the_part_around_the_rare_words_is_returned_with_marks_where_it_was_cut() -> None:
    text = f"{FILLER * 10}The kite is in the attic. {FILLER * 10}"
    cut = extract_excerpt(text, content_terms("where is the kite?"), 120)
    assert "The kite is in the attic." in cut and cut.startswith("…") and cut.endswith("…")
    assert len(cut) <= 122


def test_a_word_that_stands_everywhere_does_not_decide() -> None:
    text = f"{'The note was short. ' * 20}The note names the safe. {'The note was long. ' * 20}"
    assert "names the safe" in extract_excerpt(
        text, content_terms("which note names the safe?"), 100
    )


def test_without_a_word_of_the_question_the_beginning_is_returned() -> None:
    assert extract_excerpt(FILLER * 20, content_terms("kite"), 60).startswith("Nothing of note")


def test_a_text_without_sentences_or_spaces_is_cut_inside() -> None:
    words = f"{'word ' * 200}kite {'word ' * 200}"
    assert "kite" in extract_excerpt(words, content_terms("the kite"), 150)
    chinese = f"{'天氣很好我們去散步' * 60}風箏在閣樓{'天氣很好我們去散步' * 60}"
    assert "風箏在閣樓" in extract_excerpt(chinese, content_terms("風箏在哪裡"), 150)


@given(text=st.text(max_size=600), question=st.text(max_size=40), size=st.integers(40, 300))
def test_any_text_is_cut_to_the_size_and_stands_so_in_the_original(
    text: str, question: str, size: int
) -> None:
    cut = extract_excerpt(text, content_terms(question), size)
    assert len(cut) <= size + 2
    assert cut.removeprefix("…").removesuffix("…") in text or cut == text
