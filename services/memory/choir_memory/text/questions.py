"""Content words of a question, and the share of questions in a text: pure.

A question repeats the words of its answer and contains no information: search lowers the score of units
that only ask.
"""

import re
from collections.abc import Collection, Mapping

from choir_memory.text.tokens import query_terms

_ASKING = """
a about am an and are as at be been being but by can could did do does for from had has have he her
him his how i if in is it its me might my no not of on or our she should so than that the their them
then these they this those to was we were what when where which who whom whose why will with would
you your
"""
_FRAME = """
across asked chat chats comprehensive conversation conversations describe discuss discussed
discussing discussion discussions explain give list mention mentioned mentioning message messages
order overview please previous previously provide recall regarding related remember remind said say
session sessions summarise summarize summary talk talked talking tell throughout told
"""
# longer ones first; removed before the question is split into pairs, so that no pair spans them
_UNSPACED_ASKING = re.compile(
    "什麼時候|什么时候|為什麼|为什么|什麼|什么|甚麼|哪裡|哪里|哪兒|哪些|哪個|哪个|哪一|哪|誰|谁"
    "|多少|多久|怎麼樣|怎么样|怎麼|怎么|如何|何時|何时|是否|嗎|吗|呢|的"
)
STOP_TERMS = frozenset(query_terms(_ASKING)) | frozenset(query_terms(_FRAME))
"""Stop words: English function words, question words, and words about conversations ("mentioned").

They are rare in short turns that state something and common in those that ask, so inverse document
frequency alone would overrate them.
"""


def content_terms(question: str) -> list[str]:
    """Return the search terms without stop words; all of them if the question has nothing else."""
    terms = query_terms(_UNSPACED_ASKING.sub(" ", question))
    return [term for term in terms if term not in STOP_TERMS] or query_terms(question)


def find_named_speakers(
    terms: Collection[str], speakers: Collection[str]
) -> Mapping[str, frozenset[str]]:
    """Return the speakers with a first name that occurs in a question, with all terms of their names."""
    names_by_speaker = {}
    for speaker in speakers:
        name = query_terms(speaker)
        if name and name[0] in terms:
            names_by_speaker[speaker] = frozenset(name)
    return names_by_speaker


_SENTENCES = re.compile(r"[^.!?。！？\n]*[.!?。！？\n]*")
_ASKS = ("?", "？", "?!", "!?")


def question_share(text: str) -> float:
    """Return the share of characters, from 0 to 1, in sentences that end with a question mark."""
    total = asking = 0
    for match in _SENTENCES.finditer(text):
        sentence = match.group().strip()
        total += len(sentence)
        if sentence.endswith(_ASKS):
            asking += len(sentence)
    return asking / total if total else 0.0
