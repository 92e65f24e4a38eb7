"""Seeded dialogues between a person and a talkative assistant, in several languages.

Each persona states facts, changes some of them, mentions preferences, other people and events, and asks for
unrelated things in between. The assistant repeats what was said and talks about the same topics at length,
so its turns compete with those that contain the answers. The same seed gives the same dialogues.
"""

import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.eval.corpus import Question, Space, Unit

PERSONAS_PER_LANGUAGE = 4
EXCHANGES = 50
"""Messages of a persona; each is followed by an answer."""
SESSIONS = 14
BEGIN = datetime(2025, 1, 6, 9, tzinfo=UTC)
DAYS_BETWEEN_SESSIONS = 26
"""Sessions are in different months, so that a month names at most two of them."""
QUOTED_CHARS = 60
SENTENCES = (2, 5)
"""Minimum and maximum number of sentences of advice in an answer."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """A sentence to be said in a session, and its name for the questions about it."""

    name: str
    session: int
    text: str
    answer: str = ""
    """What the assistant says; then `text` is a request."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A question with the names of the statements that answer it."""

    kind: str
    text: str
    statements: tuple[str, ...]


@dataclass(slots=True)
class _Script:
    """What one persona says and is asked about later."""

    texts: Mapping[str, Any]
    random: random.Random
    people: Sequence[tuple[str, str]] = ()
    """Names with their relation to the persona."""
    statements: list[_Statement] = field(default_factory=list)
    questions: list[_Draft] = field(default_factory=list)

    def say(self, first: int, last: int, name: str, text: str, answer: str = "") -> int:
        """Add a statement to a session from `first` to `last`; return which one."""
        session = self.random.randint(first, last)
        self.statements.append(_Statement(name, session, text, answer))
        return session

    def ask(self, kind: str, text: str, *statements: str) -> None:
        """Add a question."""
        self.questions.append(_Draft(kind, text, statements))


def read_dialogues(path: Path, seed: int = 1) -> list[Space]:
    """Generate the dialogues of all personas from the texts in the directory, one file per language."""
    return [
        _persona(tomllib.loads(file.read_text()), number, seed)
        for file in sorted(path.glob("*.toml"))
        for number in range(1, PERSONAS_PER_LANGUAGE + 1)
    ]


def read_chat(path: Path) -> Mapping[str, Sequence[str]]:
    """Return messages that need no memory, by language."""
    files = (tomllib.loads(file.read_text()) for file in sorted(path.glob("*.toml")))
    return {texts["language"]: texts["chat"] for texts in files}


def _persona(texts: Mapping[str, Any], number: int, seed: int) -> Space:
    name = f"{texts['language']}-{number}"
    # seeded by a string: independent of the order of languages
    script = _Script(texts, random.Random(f"{seed}/{name}"))
    script.people = _people(script, 4)
    for add in (_add_facts, _add_preferences, _add_people, _add_events, _add_decoys, _add_advice):
        add(script)
    units = tuple(_units(script, name))
    said = {
        statement.name: unit.id
        for statement in script.statements
        for unit in units
        if unit.speaker == ("assistant" if statement.answer else "user")
        and (statement.answer or statement.text) in unit.text
    }
    questions = tuple(
        Question(draft.text, frozenset(said[one] for one in draft.statements), draft.kind)
        for draft in script.questions
    )
    return Space(name, units, questions, texts["language"])


def _add_facts(script: _Script) -> None:
    for fact in script.random.sample(script.texts["fact"], 7):
        key = fact["key"]
        older, newer = script.random.sample(fact["values"], 2)
        last = SESSIONS // 2 if "changed" in fact else SESSIONS - 1
        session = script.say(0, last, key, fact["said"].format(value=older))
        if "changed" in fact:
            script.say(session + 2, SESSIONS - 1, f"{key} now", fact["changed"].format(value=newer))
            script.ask("changed fact", fact["ask"], f"{key} now")
        else:
            script.ask("fact", fact["ask"], key)


def _add_preferences(script: _Script) -> None:
    for at, preference in enumerate(script.random.sample(script.texts["preference"], 3)):
        name = f"preference {at}"
        script.say(0, SESSIONS - 1, name, preference["said"])
        script.ask("preference", preference["ask"], name)


def _add_people(script: _Script) -> None:
    texts, people = script.texts, script.people
    for at, (name, relation) in enumerate(people):
        script.say(0, 4, name, texts["is"].format(name=name, relation=relation))
        person = texts["person"][at // 2]
        value = person["values"][at]
        script.say(5, SESSIONS - 1, f"{name} does", person["said"].format(name=name, value=value))
        asked = person["ask"].format(relation=relation)
        script.ask("multi-hop", asked, name, f"{name} does")
    for at in (0, 2):
        (a, _), (b, _) = people[at : at + 2]
        both = texts["person"][at // 2]["both"].format(a=a, b=b)
        script.ask("two entities", both, f"{a} does", f"{b} does")


def _add_events(script: _Script) -> None:
    texts = script.texts
    sessions = sorted(script.random.sample(range(0, SESSIONS, 2), 3))
    events = script.random.sample(texts["event"], 3)
    for at, (session, event) in enumerate(zip(sessions, events, strict=True)):
        name = f"event {at}"
        script.say(session, session, name, event["said"])
        if at:
            script.ask("event", event["ask"], name)
        else:
            month = texts["months"][_day(session).month - 1]
            script.ask("time", texts["ask_month"].format(month=month), name)


def _add_decoys(script: _Script) -> None:
    for at, decoy in enumerate(script.texts["decoy"]):
        own, *values = script.random.sample(decoy["values"], 3)
        script.say(0, SESSIONS - 1, f"own {at}", decoy["own"].format(value=own))
        for step, value in enumerate(values):
            name, relation = script.people[2 * at + step]
            text = decoy["other"].format(name=name, relation=relation, value=value)
            script.say(0, SESSIONS - 1, f"other {at} {step}", text)
        script.ask("distractor", decoy["ask"], f"own {at}")


def _add_advice(script: _Script) -> None:
    for at, advised in enumerate(script.texts["advised"]):
        name = f"advised {at}"
        script.say(0, SESSIONS - 1, name, advised["about"], advised["said"])
        script.ask("advice", advised["ask"], name)


def _people(script: _Script, count: int) -> list[tuple[str, str]]:
    texts = script.texts
    names = script.random.sample(texts["names"], count)
    return list(zip(names, script.random.sample(texts["relations"], count), strict=True))


def _day(session: int) -> datetime:
    return BEGIN + timedelta(days=session * DAYS_BETWEEN_SESSIONS)


def _units(script: _Script, name: str) -> Iterator[Unit]:
    """Yield the turns of all sessions: a statement or nothing beside a request, then an answer."""
    sessions: list[list[_Statement | None]] = [[] for _ in range(SESSIONS)]
    for statement in script.statements:
        sessions[statement.session].append(statement)
    for _ in range(EXCHANGES - len(script.statements)):
        script.random.choice(sessions).append(None)
    number = 0
    for session, statements in enumerate(sessions):
        script.random.shuffle(statements)
        for position, remark in enumerate(statements):
            request = script.random.choice(script.texts["requests"])
            message = " ".join(_in_any_order(script, remark, request))
            answer = _answer(script, message, remark.answer if remark else "")
            for step, (speaker, text) in enumerate([("user", message), ("assistant", answer)]):
                at = _day(session) + timedelta(minutes=2 * position + step)
                written = f"[{at:%Y-%m-%d}] {speaker}: {text}"
                place = 2 * position + step
                yield Unit(f"{name}/{number}", written, at, speaker, f"{session}", place)
                number += 1


def _in_any_order(script: _Script, statement: _Statement | None, request: str) -> list[str]:
    parts = [request] if statement is None else [statement.text, request]
    script.random.shuffle(parts)
    return parts


def _answer(script: _Script, message: str, said: str) -> str:
    quote = message if len(message) <= QUOTED_CHARS else f"{message[:QUOTED_CHARS]}…"
    advice = script.random.sample(script.texts["advice"], script.random.randint(*SENTENCES))
    sentences = [*advice, said] if said else advice
    script.random.shuffle(sentences)
    return " ".join([script.texts["told"].format(quote=quote), *sentences])
