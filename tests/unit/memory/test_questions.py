"""What a question tells: which words, whom, and when; and how much of a text only asks."""

from datetime import UTC, datetime

import pytest

from choir_memory.text.dates import QueriedTime, find_time
from choir_memory.text.questions import (
    asks_agent,
    content_terms,
    find_named_speakers,
    question_share,
)
from choir_memory.text.tokens import query_terms

NOW = datetime(2024, 5, 15, 13, 30, tzinfo=UTC)


def test_words_that_only_ask_are_not_looked_for_unless_there_are_no_others() -> None:
    assert content_terms("What did she do with the violin?") == ["violin"]
    assert content_terms("Please tell me what we discussed of violins") == ["violin"]
    assert content_terms("Who am I?") == query_terms("Who am I?")
    assert content_terms("小提琴在哪裡") == ["小提", "提琴", "琴在"]
    assert content_terms("什麼") == query_terms("什麼")


def test_function_words_of_a_question_are_those_of_its_language() -> None:
    assert content_terms("Was habe ich im März gemacht?") == ["marz", "gemacht"]
    assert content_terms("¿Quién me trata la espalda?") == ["trata", "espalda"]
    assert content_terms("私の背中を治療しているのは誰ですか。") == ["背中", "治療"]
    assert content_terms("Why did they die in the war?") == ["die", "war"]


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What did you recommend against the squeaking door?", True),
        ("Was hast du gegen die quietschende Tür empfohlen?", True),
        ("¿Qué recomendaste contra la puerta que chirría?", True),
        ("你建議用什麼對付吱吱叫的門？", True),
        ("きしむ扉に何を勧めてくれましたか。", True),
        ("What steps would you suggest I take?", False),
        ("Can you tell me where I live?", False),
        ("Wo wohne ich?", False),
    ],
)
def test_a_question_about_the_agents_words_is_recognised(question: str, asked: bool) -> None:
    assert asks_agent(question) is asked


def test_a_speaker_is_named_by_the_first_name() -> None:
    words = frozenset(query_terms("Where does Anna's brother live?"))
    assert find_named_speakers(words, {"Anna Ek": ["anna", "ek"], "Bert": ["bert"]}) == {
        "Anna Ek": {"anna", "ek"}
    }


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("what happened on 2023-05-08?", QueriedTime(2023, 5, 8)),
        ("in 2023-05", QueriedTime(2023, 5)),
        ("the party on 8 May 2023", QueriedTime(2023, 5, 8)),
        ("the party on May 8th, 2023", QueriedTime(2023, 5, 8)),
        ("on the 3rd of September", QueriedTime(None, 9, 3)),
        ("What did we do in July 2022?", QueriedTime(2022, 7)),
        ("trips in may", QueriedTime(None, 5)),
        ("what changed in 2021", QueriedTime(2021)),
        ("2024年5月8日發生什麼事", QueriedTime(2024, 5, 8)),
        ("5月的旅行", QueriedTime(None, 5)),
        ("Was habe ich im März 2022 gemacht?", QueriedTime(2022, 3)),
        ("am 3. Mai", QueriedTime(None, 5, 3)),
        ("¿Qué hice en marzo de 2022?", QueriedTime(2022, 3)),
        ("el 3 de mayo de 2022", QueriedTime(2022, 5, 3)),
        ("she may come, can she march on?", None),
        ("room 2023 has 12 chairs", None),
        ("on 2023-19-45", None),
        ("what was said", None),
    ],
)
def test_a_time_is_read_as_people_write_it(question: str, asked: QueriedTime | None) -> None:
    assert find_time(question, NOW) == asked


def test_a_time_is_counted_back_from_now() -> None:
    yesterday = find_time("what did I say yesterday?", NOW)
    assert yesterday
    assert yesterday.holds(datetime(2024, 5, 14, 23, 59, tzinfo=UTC))
    assert not yesterday.holds(datetime(2024, 5, 15, 0, 0, tzinfo=UTC))
    assert not yesterday.holds(datetime(2024, 5, 13, 23, 59, tzinfo=UTC))


def test_a_time_without_a_year_is_of_any() -> None:
    asked = find_time("in May", NOW)
    assert asked
    assert asked.holds(datetime(2019, 5, 3, tzinfo=UTC))
    assert not asked.holds(datetime(2019, 6, 3, tzinfo=UTC))


def test_the_share_that_asks_is_counted_by_sentences() -> None:
    assert question_share("I am well.") == 0
    assert question_share("Are you well?") == 1
    assert question_share("你好嗎？") == 1
    assert 0.3 < question_share("I am fine, thanks. And what about you?") < 0.7
    assert question_share("") == 0
