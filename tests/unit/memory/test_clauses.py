"""Which clauses of a message may need memory, and which are small talk."""

import pytest

from choir_memory.text.clauses import (
    MAX_CLAUSES,
    ClauseKind,
    clauses_to_search,
    sentences_to_embed,
)


@pytest.mark.parametrize(
    ("clause", "kind"),
    [
        ("Where do I live?", "own question"),
        ("What did you recommend against the noise?", "own question"),
        ("Wo wohne ich?", "own question"),
        ("¿Dónde vivo yo?", "own question"),
        ("¿Qué coche conduzco?", "own question"),
        ("Was für ein Restaurant würde zu mir passen?", "own question"),
        ("How do I like to be answered?", "own question"),
        ("How do I boil an egg?", "other"),
        ("Wie koche ich ein Ei?", "other"),
        ("¿Qué coleccionan Marisol y Óscar?", "named question"),
        ("我住在哪裡？", "own question"),
        ("私はどこに住んでいますか。", "own question"),
        ("Where do Ruth and Dele have their bakeries?", "named question"),
        ("My back hurts since Monday.", "own statement"),
        ("How much money is there for the kitchen?", "question"),
        ("Could you write a short note?", "other"),
        ("Cuánto dinero hay para la cocina?", "other"),
        ("I need a synonym for happy.", "other"),
        ("My question is simple: why is the sky blue?", "question"),
        ("Was ist die Hauptstadt der Mongolei?", "other"),
        ("Ich brauche ein anderes Wort dafür.", "other"),
        ("可以幫我寫一張卡片嗎？", "other"),
    ],
)
def test_a_clause_is_about_the_user_names_somebody_or_neither(
    clause: str, kind: ClauseKind
) -> None:
    assert [one.kind for one in clauses_to_search(clause)] == [kind]


@pytest.mark.parametrize(
    "message",
    [
        "Good morning!",
        "Thanks, that was all I needed for now.",
        "Gute Nacht, bis morgen.",
        "晚安，明天見。",
        "早安！你今天好嗎？",
    ],
)
def test_small_talk_needs_no_memory(message: str) -> None:
    assert clauses_to_search(message) == []


def test_a_question_about_the_user_comes_before_everything_else() -> None:
    message = "Thanks! The weather is fine. I walked the dog. Did Ada call? Where is my kite?"
    clauses = [one.text for one in clauses_to_search(message)]
    assert clauses == [
        "Where is my kite?",
        "Did Ada call?",
        "I walked the dog.",
        "The weather is fine.",
    ]


def test_no_more_clauses_are_searched_than_a_reply_can_wait_for() -> None:
    message = " ".join(f"Sentence {number} is about roofs." for number in range(20))
    assert len(clauses_to_search(message)) == MAX_CLAUSES


@pytest.mark.parametrize(
    ("message", "sentences"),
    [
        ("I drive a Volvo. How old is the sun?", ["I drive a Volvo.", "How old is the sun?"]),
        ("Could you plan my week? Tea, please.", ["Could you plan my week?", "Tea, please."]),
        ("Can you write a card. I like tea.", ["Can you write a card.", "I like tea."]),
        ("我對花生過敏。太陽多大？", ["我對花生過敏。", "太陽多大？"]),
        ("I drive a Volvo. It is grey.", []),
        ("How old is the sun? How far is it?", []),
        ("I drive a Volvo.", []),
        ("", []),
    ],
)
def test_only_a_message_that_states_and_asks_is_embedded_by_sentence(
    message: str, sentences: list[str]
) -> None:
    assert sentences_to_embed(message) == sentences


def test_of_a_long_message_only_the_first_sentences_are_embedded() -> None:
    message = " ".join(f"Number {number} is old. Is it {number}?" for number in range(20))
    assert len(sentences_to_embed(message)) == MAX_CLAUSES
