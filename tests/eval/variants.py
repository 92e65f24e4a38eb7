"""Other forms of the questions of a data set, with a misspelt word or a second question: seeded, pure."""

import random
import re
from dataclasses import replace

from choir_memory.text.questions import content_terms
from tests.eval.corpus import Question, Space

MIN_LETTERS = 5
LETTERS = "abcdefghijklmnopqrstuvwxyz"
OTHER_QUESTION = 7
"""Distance of the question that is added to another one; neighbours are often about the same topic."""
_WORDS = re.compile(rf"[A-Za-z]{{{MIN_LETTERS},}}")


def join_space(space: Space) -> Space:
    """Return the space with two questions in each text; the evidence is that of the first one."""
    texts = [question.text for question in space.questions]
    joined = [
        replace(question, text=f"{question.text} {texts[(at + OTHER_QUESTION) % len(texts)]}")
        for at, question in enumerate(space.questions)
    ]
    return replace(space, questions=joined)


def misspell_space(space: Space) -> Space:
    """Return the space with one misspelt word in each question that has a long Latin word with content."""
    return replace(space, questions=[misspell_question(question) for question in space.questions])


def misspell_question(question: Question) -> Question:
    """Return the question with an edit in one word; the same question always gets the same edit."""
    seeded = random.Random(question.text)
    words = [found for found in _WORDS.finditer(question.text) if content_terms(found.group())]
    if not words:
        return question
    word = seeded.choice(words)
    text = question.text[: word.start()] + _edit(seeded, word.group()) + question.text[word.end() :]
    return replace(question, text=text)


def _edit(seeded: random.Random, word: str) -> str:
    """Swap two letters, or leave out, add or change one; never the first one."""
    at = seeded.randrange(1, len(word) - 1)
    letter = seeded.choice(LETTERS)
    edits = (
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + letter + word[at:],
        word[:at] + letter + word[at + 1 :],
    )
    return seeded.choice(edits)
