"""Translation of Choir's sentences that arrive as text: details that services send, stored reasons, steps.

What crosses a wire or a table is English, without its template. The catalogue has all templates, so the
reader's side finds the one that makes the text, and translates the values in it the same way. Pure.
"""

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from choir_common.i18n import ENGLISH, LANGUAGES, Message, catalogue_texts

MAX_LENGTH = 2_000
"""Characters; a longer text quotes something, and patterns would take time on it."""
MIN_WORDS = 2
"""Words of a template outside its fields: `{name}: {reason}` would match what nobody said."""
MAX_DEPTH = 8
MAX_LOOKUPS = 300
"""Looks at the catalogue for one text, 0.2 ms each; what is left then stays as it is."""
_WORD = re.compile(r"[A-Za-z']{2,}")
_SEPARATORS = (
    re.compile(r"(\n)"),
    re.compile(r"(; )"),
    re.compile(r"((?<=[.!?]) )(?=[A-Z`'/{])"),
    re.compile(r"(: )"),
    re.compile(r"(, )"),
)
"""What services put between two sentences, the strongest first."""
_FIRST_OF_LISTS = 3
"""The first separator that also stands in lists of names."""


@dataclass(frozen=True)
class _Template:
    english: str
    translation: str

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        return tuple(text for text, *_field in string.Formatter().parse(self.english) if text)

    @cached_property
    def longest_piece(self) -> str:
        return max(self.pieces, key=len, default="")

    @property
    def weight(self) -> int:
        return sum(map(len, self.pieces))

    @property
    def is_sentence(self) -> bool:
        return len(_WORD.findall(" ".join(self.pieces))) >= MIN_WORDS

    @cached_property
    def fields(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return the text before the first field, and each field with the text after it."""
        start, fields = "", list[tuple[str, str]]()
        for text, name, _spec, _conversion in string.Formatter().parse(self.english):
            if fields:
                fields[-1] = (fields[-1][0], fields[-1][1] + text)
            else:
                start += text
            if name is not None:
                fields.append((name, ""))
        return start, tuple(fields)

    def match(self, text: str) -> dict[str, str] | None:
        """Return the values with which the template makes the text, the first ones as short as possible.

        It never goes back, as a regular expression would: the text may be chosen to take long.
        """
        start, fields = self.fields
        if not text.startswith(start):
            return None
        values: dict[str, str] = {}
        place = len(start)
        for number, (name, after) in enumerate(fields, 1):
            is_last = number == len(fields)
            end = len(text) - len(after) if is_last else text.find(after, place)
            if end < place or not text.startswith(after, end):
                return None
            if values.setdefault(name, text[place:end]) != text[place:end]:
                return None
            place = end + len(after)
        return values

    def fill(self, values: dict[str, str]) -> str:
        """Return the translation with values that are text already, so without their formats."""
        return "".join(
            text + (values.get(name, "") if name is not None else "")
            for text, name, _spec, _conversion in string.Formatter().parse(self.translation)
        )


class _Sentences:
    def __init__(self, language: str) -> None:
        texts = list(catalogue_texts(language))
        self._exact = {english: text for english, text in texts if "{" not in english}
        templates = (_Template(english, text) for english, text in texts if "{" in english)
        self._lookups = 0
        self._templates = [it for it in templates if it.is_sentence]

    def translate(self, text: str, depth: int = 0) -> str:
        core = text.strip()
        if depth == 0:
            self._lookups = 0
        if not core or depth > MAX_DEPTH or self._lookups > MAX_LOOKUPS:
            return text
        sentence = self._whole(core, depth)
        if sentence is None:
            return self._parts(text, depth)
        return text.replace(core, sentence, 1)

    def _whole(self, text: str, depth: int) -> str | None:
        if text in self._exact:
            return self._exact[text]
        self._lookups += 1
        if self._lookups > MAX_LOOKUPS:
            return None
        matches = ((it, it.match(text)) for it in self._candidates(text))
        best = max(
            ((it, values) for it, values in matches if values is not None),
            key=lambda pair: pair[0].weight,
            default=None,
        )
        if best is None:
            return None
        template, fields = best
        # a single word is a value, such as a name; only phrases are Choir's own
        values = {
            name: self.translate(value, depth + 1) if " " in value else value
            for name, value in fields.items()
        }
        return template.fill(values)

    def _parts(self, text: str, depth: int) -> str:
        for number, separator in enumerate(_SEPARATORS):
            parts = separator.split(text)
            # a sentence may have separators of its own: the longest beginning that is one comes first
            for end in range(len(parts) - 2, 0, -2):
                head, tail = "".join(parts[:end]), "".join(parts[end + 1 :])
                # a single word in a list, or before a colon, is a name
                sentence = (
                    self._whole(head, depth) if " " in head or number < _FIRST_OF_LISTS else None
                )
                if sentence is not None:
                    return sentence + parts[end] + self.translate(tail, depth + 1)
            if len(parts) > 1:
                sides = (parts[0], "".join(parts[2:]))
                head, tail = (
                    it
                    if " " not in it and number >= _FIRST_OF_LISTS
                    else self.translate(it, depth + 1)
                    for it in sides
                )
                if (head, tail) != sides:
                    return head + parts[1] + tail
        return text

    def _candidates(self, text: str) -> Iterator[_Template]:
        return (it for it in self._templates if it.longest_piece in text)


@lru_cache(maxsize=len(LANGUAGES))
def _sentences(language: str) -> _Sentences:
    return _Sentences(language)


class StoredSentence(Message):
    """A sentence of Choir that was stored or received as English text, such as the error of an operation."""

    __slots__ = ()

    def in_language(self, language: str) -> str:
        """Return it in one of `LANGUAGES`; what is no sentence of Choir stays as it is."""
        return translate_sentence(str(self), language)


def translate_sentence(text: str, language: str) -> str:
    """Return what a service said in English in a language; what is no sentence of Choir stays as it is."""
    if language == ENGLISH or language not in LANGUAGES or len(text) > MAX_LENGTH:
        return text
    return _sentences(language).translate(text)
