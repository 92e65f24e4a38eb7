"""What the user and the assistant of the simulated year say, in four languages, and the model that reads it.

The model is deterministic: a sentence built from a topic of this module is a candidate, everything else is
small talk. So a crash that makes the service ask again gets the same answer.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

STATEMENT_LINE = re.compile(r"^> (?P<number>\d+)\. \[[^\]]*\] [^:]*: (?P<text>.*)$")
CASE_LINE = re.compile(r"^> (?P<number>\d+)\. older: ", re.MULTILINE)
COMPLAINTS = ("That was much too long.", "Das war viel zu lang.")
SUMMARY_CHARS = 600


@dataclass(frozen=True, slots=True)
class Topic:
    """A statement about the user, with the values that it may have; a later value replaces an earlier one."""

    predicate: str
    sentence: str
    values: tuple[str, ...]
    kind: Literal["fact", "rule"] = "fact"
    explicit: bool = True
    """False: the model only concludes it, so it is held until it is supported."""

    def say(self, value: str) -> str:
        """Return the statement with a value."""
        return self.sentence.format(value=value)

    def find(self, text: str) -> str | None:
        """Return the value if a message starts with this statement."""
        before, after = self.sentence.split("{value}")
        match = re.match(f"{re.escape(before)}(.+?){re.escape(after)}", text)
        return match.group(1) if match and match.group(1) in self.values else None


@dataclass(frozen=True, slots=True)
class Language:
    """The sentences of one language; `chat` needs no memory, `advice` fills the assistant's answers."""

    topics: tuple[Topic, ...]
    chat: tuple[str, ...]
    advice: tuple[str, ...]
    question: str


LANGUAGES = {
    "en": Language(
        (
            Topic("lives in", "I live in {value} now.", ("Lisbon", "Ghent", "Oslo", "Turin")),
            Topic("works as", "I work as a {value}.", ("baker", "surveyor", "night nurse")),
            Topic("has a dog", "My dog is called {value}.", ("Momo", "Biscuit", "Anouk")),
            Topic(
                "plans",
                "Perhaps I will try {value} one day.",
                ("rowing", "pottery", "archery"),
                "fact",
                False,
            ),
            Topic(
                "wants", "From now on, {value}.", ("use metric units", "name your sources"), "rule"
            ),
        ),
        ("How was the match on Sunday?", "Thanks a lot.", "Tell me something funny."),
        (
            "There are several ways to look at this, and each has its own merits.",
            "First of all, take your time and write down what matters most to you.",
            "Many people find that a walk in the evening helps them to think.",
            "If you like, I can put all of it into a table and compare the options.",
        ),
        "Where do I live and what is my dog called?",
    ),
    "de": Language(
        (
            Topic("trinkt", "Morgens trinke ich nur {value}.", ("Kaffee", "Hafermilch", "Wasser")),
            Topic("spielt", "Seit Neuestem spiele ich {value}.", ("Cello", "Posaune", "Orgel")),
            Topic(
                "fürchtet",
                "Ich habe wohl Angst vor {value}.",
                ("Spinnen", "Aufzügen", "Gewittern"),
                "fact",
                False,
            ),
        ),
        ("Wie wird das Wetter morgen?", "Vielen Dank dafür.", "Erzähl mir etwas Neues."),
        (
            "Das ist eine gute Frage, und die Antwort hängt von mehreren Dingen ab.",
            "Zuerst solltest du überlegen, wie viel Zeit du dafür wirklich hast.",
            "Ich kann dir dazu gern eine ausführliche Liste zusammenstellen.",
        ),
        "Welches Instrument spiele ich?",
    ),
    "es": Language(
        (
            Topic("conduce", "Ahora conduzco un coche {value}.", ("rojo", "antiguo", "prestado")),
            Topic("estudia", "Este curso estudio {value}.", ("griego", "derecho", "botánica")),
        ),
        ("¿Qué tal el partido?", "Muchas gracias.", "Cuéntame un chiste."),
        (
            "Hay muchas maneras de verlo y todas tienen algo de razón.",
            "Lo mejor es empezar despacio y anotar lo que vas aprendiendo.",
            "Si quieres, preparo un resumen con todos los detalles.",
        ),
        "¿Qué estudio este curso?",
    ),
    "zh": Language(
        (
            Topic("最喜歡", "我最喜歡吃{value}。", ("牛肉麵", "小籠包", "豆花")),
            Topic("正在學", "我最近開始學{value}。", ("書法", "潛水")),
        ),
        ("今天天氣怎麼樣?", "謝謝你。", "說個笑話吧。"),
        (
            "這個問題可以從很多方面來看,每一種看法都有道理。",
            "建議你先把重要的事情寫下來,再慢慢決定。",
            "如果需要的話,我可以幫你整理成一張表格。",
        ),
        "我最喜歡吃什麼?",
    ),
}


def answer_model(instructions: str, material: str) -> tuple[int, str]:
    """Answer each of the service's questions to its model as a chat provider: HTTP status and text."""
    if "- explicit: true" in instructions:
        return 200, json.dumps(_propose(material))
    if "supersede" in instructions:
        cases = CASE_LINE.findall(material)
        decisions = [{"case": int(case), "decision": "supersede"} for case in cases]
        return 200, json.dumps({"decisions": decisions})
    if "Statements:" in material:
        return 200, json.dumps({"supported": []})
    lines = [line.removeprefix("> ") for line in material.splitlines()]
    return 200, " ".join(lines)[:SUMMARY_CHARS]


def _propose(material: str) -> dict[str, object]:
    candidates: list[object] = []
    feedback: list[object] = []
    for line in material.splitlines():
        match = STATEMENT_LINE.match(line)
        if match is None:
            continue
        source, text = int(match["number"]), match["text"]
        candidates += _candidates(text, source)
        feedback += [
            {"label": "negative", "quote": complaint, "source": source}
            for complaint in COMPLAINTS
            if text.startswith(complaint)
        ]
    return {"candidates": candidates, "feedback": feedback}


def _candidates(text: str, source: int) -> Iterator[dict[str, object]]:
    for language in LANGUAGES.values():
        for topic in language.topics:
            value = topic.find(text)
            if value is not None:
                yield {
                    "kind": topic.kind,
                    "category": "person",
                    "subject": "user",
                    "predicate": topic.predicate,
                    "object": value,
                    "text": topic.say(value),
                    "quote": topic.say(value),
                    "source": source,
                    "lasts": "lasting",
                    "explicit": topic.explicit,
                }
