"""Choices by mail: only a reply that is nothing but the choice decides."""

import pytest

from choir_common.wire.attachments import Button
from choir_gateway.channels.email.choices import (
    UnclearChoice,
    find_choice,
    list_choices,
    looks_like_choice,
)

APPROVE, REJECT = Button(label="Approve", data="y"), Button(label="Reject", data="n")
BOTH = (APPROVE, REJECT)
PAGES = (Button(label="Show all", data="p1"), REJECT)


@pytest.mark.parametrize(
    "text", ["1", " 1 \n", "1.", "(1)", "#1", "yes", "Yes!", "YES.", "approve"]
)
def test_a_number_a_word_or_a_label_chooses(text: str) -> None:
    assert find_choice(text, BOTH) is APPROVE


@pytest.mark.parametrize("text", ["2", "no", "No.", "Reject"])
def test_another_choice_is_the_other_button(text: str) -> None:
    assert find_choice(text, BOTH) is REJECT


@pytest.mark.parametrize("text", ["1\nbut not today", "yes\n\nAnn", "Approve\nonly half"])
def test_a_choice_with_more_text_decides_nothing(text: str) -> None:
    assert find_choice(text, BOTH) is UnclearChoice.MORE_TEXT


@pytest.mark.parametrize("text", ["3", "0", "99"])
def test_an_unknown_number_decides_nothing(text: str) -> None:
    assert find_choice(text, BOTH) is UnclearChoice.NO_SUCH_CHOICE


@pytest.mark.parametrize("text", ["", "yes please", "1 or 2?", "What for?", "12345", "approved"])
def test_other_text_is_a_message(text: str) -> None:
    assert find_choice(text, BOTH) is None


def test_yes_does_not_choose_what_approves_nothing() -> None:
    assert find_choice("yes", PAGES) is UnclearChoice.NO_SUCH_CHOICE
    assert find_choice("1", PAGES) is PAGES[0]
    assert "yes" not in list_choices(PAGES) and "yes or no" in list_choices(BOTH)


def test_what_would_choose_is_recognised_without_its_question() -> None:
    assert looks_like_choice("1") and looks_like_choice("Yes.")
    assert not looks_like_choice("Hello")
