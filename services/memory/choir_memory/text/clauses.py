"""Split a message into clauses, and tell which of them may need memory: pure.

A message names several things or rambles, so its clauses are searched separately: the words of one would
bury those of another. Greetings, thanks and tasks that concern nobody are most of a conversation; a clause
about the user, or one that names somebody, is more likely to need memory.
"""

import re
from dataclasses import dataclass
from typing import Literal

from choir_memory.text.questions import (
    Language,
    asks_agent,
    content_terms,
    detect_language,
    question_share,
)
from choir_memory.text.tokens import query_terms

ClauseKind = Literal["own question", "named question", "own statement", "question", "other"]
"""Most likely to need memory first: a question about the user or the agent, a question that names somebody,
a statement about the user, another question in English, anything else."""
_ORDER: tuple[ClauseKind, ...] = (
    "own question",
    "named question",
    "own statement",
    "question",
    "other",
)
MAX_CLAUSES = 8
"""Clauses of a message that are searched; each costs a search."""
MIN_QUESTION_SHARE = 0.5

_SENTENCES = re.compile(r".+?(?:[.!?]+(?=\s|$)|[。！？]+|\n|$)\s*", re.DOTALL)
_OWN: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\b(?:my(?! question)|mine|our|ours|we|us|myself|(?:did|do|am|was|have|had|should|can|could) i"
        r"|i(?! (?:need|needed|want|wanted|would|will|can|could|was wondering|wonder|think|have to|have a"
        r"|am looking)\b|['’](?:d|ll)\b)|(?:with|suits?|like|about|remind) me|for me (?:on|in|at))\b",
        re.IGNORECASE,
    ),
    "de": re.compile(
        r"\b(?:ich(?! (?:brauche|möchte|würde|will|suche|hätte)\b)|mich|mein(?:e[mnrs]?)?(?! frage)|wir"
        r"|unser(?:e[mnrs]?)?|uns|(?:mit|zu|von|bei) mir)\b",
        re.IGNORECASE,
    ),
    "es": re.compile(
        r"\b(?:yo|tengo|soy|estoy|mis?(?! preguntas?)|mí|nuestr[oa]s?|nos"
        r"|me(?! (?:ayudas?|puedes?|das|gustaría)\b)"
        r"|(?!qué\b|así\b|aquí\b|allí\b|café\b)\w{3,}[íé])\b"
        # "¿Qué coche conduzco?", "¿Dónde vivo?": verbs in -o, behind no word that makes them nouns
        r"|¿(?:qué|dónde|cuándo|cómo|cuánto) \w{2,}o\b"
        r"|¿(?:\w+ ){1,3}(?<!\b(?:el|lo|un|al|de|en|es) )(?<!\b(?:del|con) )\w{2,}o\?$",
        re.IGNORECASE,
    ),
}
"""First person, except in requests ("I need", "my question")."""
_OWN_UNSPACED = re.compile(
    "(?<![幫帮給给跟])[我咱](?!需要|想要|的問題|的问题)|私(?!の質問)|僕|俺|自分|うちの"
)
_HOW_TO = re.compile(
    r"^(?:and |but |so )?how (?:do|can|could|should|would) i (?!like|prefer|want|feel)"
    r"|^wie (?:kann|soll|muss|koche|mache|bekomme|schreibe) ich\b",
    re.IGNORECASE,
)
"""Questions for instructions: about a task, not about the user."""
_REQUEST = re.compile(r"^(?:\w+,? )?(?:can|could|will|would) you\b", re.IGNORECASE)
"""A task in the form of a question."""
_NAME = re.compile(r"(?<=[^\W\d_] )[A-ZÄÖÜÁÉÍÓÚ][\w’'-]+")
_SMALL_TALK_TEXTS = """
good morning evening afternoon night thanks thank hello hi hey bye today tomorrow great okay ok now
yes sure sense need all see
guten gute morgen abend nacht danke hallo heute bis geht gut
buenos buenas dias tardes noches gracias hola hoy mañana vale ahora hasta todo
早安 晚安 明天 今天 今天好 謝謝 谢谢 你好 明天見
おはようございます こんにちは ありがとう、今のところはこれで十分です ありがとうございます
今日の調子はどうですか おやすみなさい、また明日
"""
_SMALL_TALK = frozenset(
    term
    for text in _SMALL_TALK_TEXTS.split()
    for term in (*query_terms(text), *content_terms(text))
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence of a message."""

    text: str
    kind: ClauseKind


def split_sentences(message: str) -> list[str]:
    """Return the distinct sentences of a message, in order."""
    sentences = dict.fromkeys(match.group().strip() for match in _SENTENCES.finditer(message))
    return [sentence for sentence in sentences if sentence]


def sentences_to_embed(message: str) -> list[str]:
    """Return the sentences of a message that both states something and asks for something; else nothing.

    The vector of such a message is between both, so each of its sentences gets one of its own.
    """
    sentences = split_sentences(message)
    stating = sum(not _is_request(sentence) for sentence in sentences)
    return sentences[:MAX_CLAUSES] if 0 < stating < len(sentences) else []


def _is_request(sentence: str) -> bool:
    return question_share(sentence) > MIN_QUESTION_SHARE or _REQUEST.match(sentence) is not None


def clauses_to_search(message: str) -> list[Clause]:
    """Return the clauses that may need memory, the most likely first; none for mere small talk."""
    sentences = split_sentences(message)
    clauses = [Clause(text, _kind(text)) for text in sentences if not _is_small_talk(text)]
    clauses.sort(key=lambda clause: (_ORDER.index(clause.kind), -len(clause.text)))
    return clauses[:MAX_CLAUSES]


def _kind(text: str) -> ClauseKind:
    asks = question_share(text) > MIN_QUESTION_SHARE
    language = detect_language(text)
    if asks_agent(text) or _is_own(text, language):
        return "own question" if asks else "own statement"
    # in German every noun has a capital
    if asks and language != "de" and _NAME.search(text):
        return "named question"
    return "question" if asks and _is_plain_question(text, language) else "other"


def _is_plain_question(text: str, language: Language) -> bool:
    """Return whether an English question is about facts, such as "How much money is there for the kitchen?".

    Other languages are excluded: offline, their relevance is that of shared words, and one of them is enough.
    """
    return (
        language == "en" and text.isascii() and not _HOW_TO.match(text) and not _REQUEST.match(text)
    )


def _is_own(text: str, language: Language) -> bool:
    if _HOW_TO.match(text):
        return False
    return bool(_OWN[language].search(text) or _OWN_UNSPACED.search(text))


def _is_small_talk(text: str) -> bool:
    return all(term in _SMALL_TALK or term.isdigit() for term in content_terms(text))
