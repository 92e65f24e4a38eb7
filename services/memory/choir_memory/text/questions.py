"""Content words of a question, and the share of questions in a text: pure.

A question repeats the words of its answer and contains no information: search lowers the score of units
that only ask.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

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
_ASKING_GERMAN = """
aber als am an auch auf aus bei bin bist da damit das dass dein deine dem den der des die dir dich doch
du ein eine einem einen einer es für gibt habe haben hast hat hatte ich ihr im in ist kann kannst man
mein meine meinem meinen meiner mich mir mit nach nicht noch oder sein seine sich sie sind so soll und uns
unser unsere vom von vor wann war waren warum was welche welchem welchen welcher welches wem wen wer
werden wie wird wo woher wohin worden wurde würde zu zum zur über um
"""
_ASKING_SPANISH = """
a al algo como cómo con cual cuál cuáles cuando cuándo cuanta cuánta cuanto cuánto cuántos de del desde
donde dónde el ella ellos en era es esa ese eso esta está este esto fue ha han has hay he la las le les lo
los me mi mis muy no nos o para pero por porque qué que quién quien quiénes se ser si sin sobre son su
sus te tengo tiene tienen tu tus un una uno unos y ya yo
"""
# longer ones first; removed before the question is split into pairs, so that no pair spans them
_UNSPACED_ASKING = re.compile(
    "我們|我的|我|你|您|什麼時候|什么时候|為什麼|为什么|什麼|什么|甚麼|哪裡|哪里|哪兒|哪些|哪個|哪个|哪一|哪|誰|谁"
    "|多少|多久|怎麼樣|怎么样|怎麼|怎么|如何|何時|何时|是否|嗎|吗|呢|的"
    # Japanese: question words, endings and particles
    "|していますか|しています|している|ていますか|ています|ている|何ですか|ですか|ましたか|ますか|でしょうか|ください|でした|ました|います|します|です|ます"
    "|どこに|どこで|どこ|どんな|どの|どれ|いつ|いくら|なぜ|だれ|何を|何に|何の|何が|私の|私は|私が|私"
    "|には|では|とは|から|まで|ので|のは|のが|のを|は|が|を|に|で|と|も|の|か"
)
STOP_TERMS = frozenset(query_terms(_ASKING)) | frozenset(query_terms(_FRAME))
"""Stop words: English function words, question words, and words about conversations ("mentioned").

They are rare in short turns that state something and common in those that ask, so inverse document
frequency alone would overrate them.
"""


Language = Literal["en", "de", "es"]
_STOP_TERMS: Mapping[Language, frozenset[str]] = {
    "en": STOP_TERMS,
    "de": frozenset(query_terms(_ASKING_GERMAN)),
    "es": frozenset(query_terms(_ASKING_SPANISH)),
}
"""By language, because "die" and "war" are English words, too."""


def detect_language(text: str) -> Language:
    """Return the language with the most stop words in a text; English for other languages."""
    return _language_of(query_terms(text))


def is_english(text: str) -> bool:
    """Return whether a text has stop words of English, and not more of another language."""
    terms = query_terms(text)
    return _language_of(terms) == "en" and not STOP_TERMS.isdisjoint(terms)


def _language_of(terms: Collection[str]) -> Language:
    return max(_STOP_TERMS, key=lambda language: len(_STOP_TERMS[language].intersection(terms)))


def content_terms(question: str) -> list[str]:
    """Return the search terms without stop words; all of them if the question has nothing else."""
    all_terms = query_terms(question)
    stop_terms = _STOP_TERMS[_language_of(all_terms)]
    bare = question if question.isascii() else _UNSPACED_ASKING.sub(" ", question)
    terms = all_terms if bare == question else query_terms(bare)
    return [term for term in terms if term not in stop_terms] or all_terms


_ASKS_AGENT = re.compile(
    r"\b(?:did|had|have|were) you\b|\byour (?:answer|advice|recommendation|suggestion|tip|explanation)"
    r"|\byou (?:said|told|recommended|suggested|advised|explained|mentioned|gave|wrote|proposed|showed)\b"
    r"|\bhast du\b|\bdu (?:mir )?(?:gesagt|empfohlen|geraten|vorgeschlagen|erklärt)"
    r"|(?:recomend|suger|aconsej|dij|explic|propus|mencion)[aie]?ste\b"
    r"|\btu (?:respuesta|consejo|recomendaci)"
    r"|[你您].{0,6}(?:建議|建议|推薦|推荐|說|说|告訴|告诉)|くれましたか|(?:勧め|提案し|説明し)(?:た|ました)",
    re.IGNORECASE,
)


def asks_agent(question: str) -> bool:
    """Return whether a question is about what the agent said or recommended."""
    return _ASKS_AGENT.search(question) is not None


def find_named_speakers(
    terms: Collection[str], names: Mapping[str, Sequence[str]]
) -> Mapping[str, frozenset[str]]:
    """Return the speakers with a first name that occurs in a question, with all terms of their names.

    `names` contains the terms of each speaker's name, in order.
    """
    return {
        speaker: frozenset(name) for speaker, name in names.items() if name and name[0] in terms
    }


_SENTENCES = re.compile(r"[^.!?。！？\n]*[.!?。！？\n]*")
_ASKS = ("?", "？", "?!", "!?", "か。")


def question_share(text: str) -> float:
    """Return the share of characters, from 0 to 1, in sentences that ask."""
    total = asking = 0
    for match in _SENTENCES.finditer(text):
        sentence = match.group().strip()
        total += len(sentence)
        if sentence.endswith(_ASKS):
            asking += len(sentence)
    return asking / total if total else 0.0
