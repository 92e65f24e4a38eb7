"""Evaluation of reminders: whether they contain the answer to a message, and appear only if there is one."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from choir_common.wire.memory_recall import Reminders
from tests.eval.corpus import Space

MESSAGE_WORDS = 60
CHARS_PER_WORD = 2
"""In scripts without spaces."""
UNSPACED = ("zh-Hant", "ja")
ENGLISH = "en"


@dataclass(frozen=True, slots=True)
class ReminderMeasures:
    """Shares of messages: with the answer in the reminders, and with reminders though none was needed."""

    question: float
    """The message is the question alone."""
    long_message: float
    """The question is one sentence of a message of 60 words."""
    false_reminders: float
    """The message needs no memory."""


def lengthen(question: str, chat: Sequence[str], language: str) -> str:
    """Return a message of 60 words that contains the question among sentences of small talk."""
    # seeded by the question, so that each run measures the same messages
    shuffled = random.Random(question)
    others = shuffled.sample(chat, len(chat))
    parts = [question]
    while others and _words(parts, language) < MESSAGE_WORDS:
        parts.insert(shuffled.choice([0, len(parts)]), others.pop())
    return " ".join(parts)


def contains_answer(
    reminders: Reminders, unit_of: Mapping[str, str], wanted: frozenset[str]
) -> bool:
    """Return whether a reminder is one of the units that contain the answer."""
    return any(unit_of.get(one.document_id) in wanted for one in reminders.reminders)


def chat_for(space: Space, chat: Mapping[str, Sequence[str]]) -> tuple[str, Sequence[str]]:
    """Return the language of a space and the small talk in it."""
    language = space.language or ENGLISH
    return language, chat[language]


def _words(parts: Sequence[str], language: str) -> float:
    if language in UNSPACED:
        return len("".join(parts)) / CHARS_PER_WORD
    return len(" ".join(parts).split())
