"""Words that look Latin and are wholly in Cyrillic or Greek letters, such as the host of somebody else.

Pure. In a sentence of those languages such words are ordinary, so the text around a word decides. See
docs/design/approvals.md.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

# Letters whose prototype in UTS 39 (confusables.txt, Unicode 16) is one ASCII letter.
_CYRILLIC = (
    "\u0405\u0406\u0408\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u042c"
    "\u0430\u0433\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0461\u0474\u0475\u04ae\u04af"
    "\u04bb\u04bd\u04c0\u04cf\u0501\u050c\u051b\u051c\u051d\ua647"
)
_GREEK = (
    "\u037f\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03b1\u03b3\u03b9\u03bd\u03bf\u03c1\u03c3\u03c5\u03d2\u03dc\u03f1\u03f2\u03f3\u03f9\u03fa"
)
_LOOK_ALIKE = re.compile(f"[{_CYRILLIC}{_GREEK}]")
_WORD = re.compile(r"[\w\u0300-\u036f]+")
_WHOLE = {
    "Cyrillic": re.compile(f"[{_CYRILLIC}0-9_]+"),
    "Greek": re.compile(f"[{_GREEK}0-9_]+"),
}
# Letters that look like no Latin one, and so tell the script.
_TELLING = {
    "Cyrillic": re.compile(rf"(?![{_CYRILLIC}])[\u0400-\u0481\u048a-\u052f]"),
    "Greek": re.compile(rf"(?![{_GREEK}])[\u0386-\u03ff\u1f00-\u1fff]"),
}
_JSON_ESCAPE = re.compile(r"\\[nrtbf\"\\/]")
_TOKEN = re.compile(r"[^\s\"'`\u00ab\u00bb\u2018-\u201f()\[\]{}<>,;|&!?*#\u2026\u2013\u2014]+")
_JOINS = re.compile(r"[./\\@:=_~$]")
_ASCII_LETTER = re.compile("[A-Za-z]")
# Between the words of a sentence; semicolons, pipes and straight quotes end a command or a value.
_GAP = re.compile(r"[ \t,.!?:()\u00ab\u00bb\u2018-\u201f\u2026\u2013\u2014-]*")


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a line, and what the characters say that it is joined with."""

    text: str
    start: int
    end: int
    has_ascii: bool
    """Whether there are Latin letters, as in an address, a path or an option."""
    is_joined: bool
    """Whether it has parts, as those have."""
    telling: frozenset[str]
    """Scripts that letters of them tell."""


def spell_look_alikes(line: str, spell: Callable[[str], str]) -> str:
    """Return a line in which `spell` wrote the letters of each word that could pass for a Latin one.

    A word in a sentence of its own script is left: one beside a word that has other letters of it.
    """
    if not _LOOK_ALIKE.search(line):
        return line
    # of the same length: escapes of JSON separate words, and places stay the same
    plain = _JSON_ESCAPE.sub('""', line)
    words = _read_words(plain)
    in_sentences = _in_sentences(plain, words)
    telling = _scripts_told(plain)
    pieces, end = [], 0
    for number, word in enumerate(words):
        script = _script_of(word.text)
        if script is None or not (
            _is_part(script, word)
            or (number not in in_sentences and _is_deceptive(word, script in telling))
        ):
            continue
        pieces += [line[end : word.start], "".join(map(spell, word.text))]
        end = word.end
    return "".join([*pieces, line[end:]])


def _scripts_told(text: str) -> frozenset[str]:
    return frozenset(name for name, letters in _TELLING.items() if letters.search(text))


def _read_words(plain: str) -> list[_Word]:
    words = []
    for token in _TOKEN.finditer(plain):
        about = (
            _ASCII_LETTER.search(token[0]) is not None,
            _JOINS.search(token[0].strip(".:")) is not None,
            _scripts_told(token[0]),
        )
        words += [
            _Word(word[0], word.start(), word.end(), *about)
            for word in _WORD.finditer(plain, token.start(), token.end())
        ]
    return words


def _script_of(text: str) -> str | None:
    """Return the script of a word whose letters all are look-alikes, or None."""
    if text.isascii():
        return None
    return next((name for name, pattern in _WHOLE.items() if pattern.fullmatch(text)), None)


def _is_deceptive(word: _Word, is_in_line: bool) -> bool:
    """Return whether a look-alike that is in no sentence of its script could pass for a Latin word."""
    length = sum(not c.isascii() for c in word.text)
    # one letter, or an abbreviation such as that of "operating system", among Latin names
    return not (is_in_line and (length == 1 or word.text.isupper()))


def _is_part(script: str, word: _Word) -> bool:
    """Return whether a look-alike is a part of an address, a path, an option or a name with parts."""
    length = sum(not c.isascii() for c in word.text)
    return word.has_ascii or (word.is_joined and length > 1 and script not in word.telling)


def _in_sentences(plain: str, words: list[_Word]) -> set[int]:
    """Return the numbers of the look-alikes whose sentence has another word that tells their script."""
    in_sentences: set[int] = set()
    numbers = range(len(words))
    for order in (numbers, reversed(numbers)):
        scripts: frozenset[str] = frozenset()
        last: _Word | None = None
        for number in order:
            word = words[number]
            if last is not None:
                first, second = sorted((last, word), key=lambda it: it.start)
                if not _GAP.fullmatch(plain, first.end, second.start):
                    scripts = frozenset()
            last = word
            script = _script_of(word.text)
            if script is None:
                scripts = _scripts_told(word.text)
            elif script in scripts:
                in_sentences.add(number)
    return in_sentences
