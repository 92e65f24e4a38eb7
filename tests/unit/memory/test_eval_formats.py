"""Reading LoCoMo, BEAM and JSONL for `make eval`, and measuring an order."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from choir_memory.text.spelling import edit_between
from tests.eval.corpus import Question
from tests.eval.dialogues import read_dialogues
from tests.eval.formats import (
    detect_format,
    normalize_references,
    parse_time,
    read_beam,
    read_jsonl,
    read_locomo,
)
from tests.eval.measures import mean, measure
from tests.eval.variants import misspell_question

DATA = Path("tests/eval/data")
LOCOMO = {
    "sample_id": "c1",
    "conversation": {
        "speaker_a": "Ann",
        "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "Fine."}],
        "session_2_date_time": "9:05 am on 3 June, 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a cat"},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Nice."},
        ],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    },
    "qa": [
        {"question": "What did Ann show?", "evidence": ["D:1:1; D1:02"], "category": 1},
        {"question": "What else?", "evidence": [], "category": 5},
        {"question": "And elsewhere?", "evidence": ["D9:9"], "category": 4},
    ],
}
MESSAGES = [
    {"id": 0, "role": "user", "content": "I use Flask.", "time_anchor": "March-15-2024"},
    {"id": 1, "role": "assistant", "content": "Good.", "time_anchor": None},
]
PROBES = {
    "information_extraction": [{"question": "Which framework?", "source_chat_ids": [0]}],
    "knowledge_update": [
        {"question": "What changed?", "source_chat_ids": {"old": [0], "new": [2]}}
    ],
    "abstention": [{"question": "Which shoe size?"}],
}


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_locomo_turns_carry_date_speaker_and_caption(tmp_path: Path) -> None:
    (space,) = read_locomo(write(tmp_path / "l.json", [LOCOMO]))
    assert [unit.text for unit in space.units] == [
        "[1:56 pm on 8 May, 2023] Ann: Look! [a cat]",
        "[1:56 pm on 8 May, 2023] Ben: Nice.",
        "[9:05 am on 3 June, 2023] Ben: Fine.",
    ]
    assert [(unit.session, unit.position) for unit in space.units] == [("1", 0), ("1", 1), ("2", 0)]
    assert space.units[0].at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def test_locomo_questions_without_evidence_in_the_data_are_dropped(tmp_path: Path) -> None:
    (space,) = read_locomo(write(tmp_path / "l.json", LOCOMO))
    assert [(one.evidence, one.category) for one in space.questions] == [({"D1:1", "D1:2"}, "1")]


def test_references_are_read_in_every_spelling() -> None:
    assert normalize_references(["D:11:26", "D30:05 D1:2; D3:4"]) == {
        "D11:26",
        "D30:5",
        "D1:2",
        "D3:4",
    }


def test_of_a_conversation_that_was_shortened_the_short_file_is_read(tmp_path: Path) -> None:
    chat = tmp_path / "7"
    (chat / "probing_questions").mkdir(parents=True)
    later = [{"id": 9, "role": "user", "content": "Much later.", "time_anchor": "May-02-2024"}]
    write(chat / "chat.json", [{"batch_number": 1, "turns": [MESSAGES, later]}])
    write(chat / "chat_trunecated.json", [{"batch_number": 1, "turns": [MESSAGES]}])
    write(chat / "probing_questions" / "probing_questions.json", PROBES)
    (space,) = read_beam(tmp_path)
    assert len(space.units) == len(MESSAGES)


@pytest.mark.parametrize("published", [True, False])
def test_beam_is_read_as_a_table_and_as_directories(tmp_path: Path, published: bool) -> None:
    more = [{"id": 2, "role": "user", "content": "Now FastAPI.", "time_anchor": "April-02-2024"}]
    if published:
        row = {"conversation_id": "7", "chat": [MESSAGES, more], "probing_questions": repr(PROBES)}
        path = write(tmp_path / "beam.json", [row])
    else:
        path = tmp_path
        (tmp_path / "7" / "probing_questions").mkdir(parents=True)
        batches = [
            {"batch_number": 1, "time_anchor": None, "turns": [MESSAGES]},
            {"batch_number": 2, "time_anchor": None, "turns": [more]},
        ]
        write(tmp_path / "7" / "chat.json", batches)
        write(tmp_path / "7" / "probing_questions" / "probing_questions.json", PROBES)
    assert detect_format(path) == "beam"
    (space,) = read_beam(path)
    assert [unit.text for unit in space.units] == [
        "[March-15-2024] user: I use Flask.",
        "[March-15-2024] assistant: Good.",
        "[April-02-2024] user: Now FastAPI.",
    ]
    assert [unit.session for unit in space.units] == ["0", "0", "1"]
    assert [(one.category, one.evidence) for one in space.questions] == [
        ("information_extraction", {"0"}),
        ("knowledge_update", {"0", "2"}),
    ]


def test_jsonl_is_read_with_its_questions() -> None:
    path = DATA / "notes.jsonl"
    assert detect_format(path) == "jsonl"
    garden, kitchen = read_jsonl(path)
    assert (len(garden.units), len(garden.questions)) == (5, 3)
    assert (len(kitchen.units), len(kitchen.questions)) == (2, 1)
    assert garden.units[2].text.startswith("[2024-03-02] Ann: A fence")
    assert [unit.position for unit in garden.units] == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2024-05-01", datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024-05-01T10:00:00Z", datetime(2024, 5, 1, 10, tzinfo=UTC)),
        ("March-15-2024", datetime(2024, 3, 15, tzinfo=UTC)),
        ("some day", None),
        (None, None),
    ],
)
def test_times_are_read_as_files_write_them(written: str | None, read: datetime | None) -> None:
    assert parse_time(written) == read


def test_an_order_is_measured_by_turns_and_by_sessions() -> None:
    session_of = {name: name[0] for name in ("a1", "a2", "b1", "c1", "d1", "e1", "f1")}
    found = ["a1", "a2", "b1", "c1", "d1", "e1", "f1"]
    told = measure(Question("?", frozenset({"b1", "f1"})), found, session_of)
    assert (told.turn_r5, told.turn_r10, told.mrr) == (0.5, 1.0, pytest.approx(1 / 3))
    assert (told.session_any5, told.session_all5, told.session_r10) == (1.0, 0.0, 1.0)
    nothing = measure(Question("?", frozenset({"f1"})), [], session_of)
    assert nothing.mrr == nothing.turn_r10 == nothing.session_any5 == 0
    assert mean([told, nothing]).turn_r10 == 0.5
    assert mean([]).mrr == 0


def test_dialogues_are_of_twenty_personas_in_five_languages_and_the_same_every_time() -> None:
    path = DATA / "dialogues"
    assert detect_format(path) == "dialogues"
    spaces = read_dialogues(path)
    assert {space.language for space in spaces} == {"de", "en", "es", "ja", "zh-Hant"}
    assert (len(spaces), sum(len(space.units) for space in spaces)) == (20, 2_000)
    assert read_dialogues(path) == spaces
    assert read_dialogues(path, seed=2) != spaces


def test_evidence_of_a_dialogue_is_what_the_user_said_unless_advice_is_asked_for() -> None:
    for space in read_dialogues(DATA / "dialogues"):
        speakers = {unit.id: unit.speaker for unit in space.units}
        for question in space.questions:
            asked = {speakers[name] for name in question.evidence}
            assert asked == {"assistant" if question.category == "advice" else "user"}


def test_a_misspelt_question_has_one_edit_in_one_word_and_is_the_same_every_time() -> None:
    question = Question("Which trumpet did Anna polish yesterday?", frozenset({"a"}))
    misspelt = misspell_question(question)
    assert misspelt == misspell_question(question)
    words = zip(question.text.split(), misspelt.text.split(), strict=True)
    ((word, other),) = [pair for pair in words if pair[0] != pair[1]]
    assert edit_between(other, word) is not None
    assert misspell_question(Question("Who is it?", frozenset())).text == "Who is it?"
