"""The code by which a bot recognises the person who connects it cannot be guessed."""

import pytest

from choir_control.conversations.telegram.entries import choose_names
from choir_control.conversations.telegram.pairing_code import (
    ALPHABET,
    MAX_WRONG,
    MAX_WRONG_OF_PERSON,
    PairingCode,
)
from tests.unit.control.test_configuration import config

WRONG = "2222-2222"


@pytest.fixture
def code() -> PairingCode:
    return PairingCode()


def test_a_code_is_recognised_however_it_is_typed(code: PairingCode) -> None:
    letters = code.text.replace("-", "")
    assert len(letters) == 8 and set(letters) <= set(ALPHABET)
    for text in (code.text, letters.lower(), f" {letters} ", f"/start {code.text}"):
        assert code.check("1", text) == "right"
    assert code.text not in repr(code)


def test_two_codes_differ(code: PairingCode) -> None:
    assert PairingCode().text != code.text


@pytest.mark.parametrize(
    "text", ["", "hello", "/start", "a much longer message", "0000-0000", "ä" * 4, "\x00" * 8]
)
def test_what_looks_like_no_code_is_no_try(code: PairingCode, text: str) -> None:
    assert code.check("1", text) == "ignored"
    assert code.wrong == 0


def test_a_person_who_has_tried_too_often_is_ignored_even_with_the_right_code(
    code: PairingCode,
) -> None:
    for _ in range(MAX_WRONG_OF_PERSON):
        assert code.check("1", WRONG) == "wrong"
    assert code.check("1", code.text) == "ignored"
    assert code.check("2", code.text) == "right"


def test_many_accounts_together_exhaust_a_code(code: PairingCode) -> None:
    verdicts = [code.check(str(number), WRONG) for number in range(MAX_WRONG)]
    assert verdicts == ["wrong"] * (MAX_WRONG - 1) + ["exhausted"]
    assert code.check("new", code.text) == "exhausted"


def test_a_secret_left_by_an_interrupted_attempt_is_used_again() -> None:
    left = {"telegram-token": "5:old", "telegram-token-2": "7:other"}
    assert choose_names(config(), left, "5:new").secret == "telegram-token"
    assert choose_names(config(), left, "8:new").secret == "telegram-token-3"
