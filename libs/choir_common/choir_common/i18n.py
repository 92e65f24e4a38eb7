"""Messages to people, in their language: English in the code, translations in gettext catalogues.

`_("{agent} has stopped.").format(agent=name)` is a `Message`: a string of its English text, which also knows
how to say it in another language. So logs, JSON, events and what an agent's model reads stay English; only
the code that tells a person something calls `translate`. What loses its translation on the way, as a part of
an f-string does, is English and never wrong. How to translate: docs/how-to/translate.md.
"""

import gettext
import string
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Self

ENGLISH = "en"
LANGUAGE_NAMES = {ENGLISH: "English", "de": "Deutsch"}
LANGUAGES = tuple(LANGUAGE_NAMES)
"""Languages with catalogues; `locales/LANGUAGE/LC_MESSAGES/choir.mo`."""
LOCALES = Path(__file__).parent / "locales"
DOMAIN = "choir"
READER_LANGUAGE: ContextVar[str] = ContextVar("reader_language", default=ENGLISH)
"""The language of messages in f-strings. Only choirctl sets it: a command has one reader, a service many."""
MAX_TAG = 35
"""Characters of a language tag, such as `de` or `pt-BR` (RFC 5646)."""


class Message(str):
    """A text for people: its value is English, `translate` returns it in other languages."""

    __slots__ = ("_count", "_plural", "_template", "_values")

    _template: str
    _plural: str | None
    _count: int
    _values: Mapping[str, object] | None

    def __new__(
        cls,
        template: str,
        plural: str | None = None,
        count: int = 1,
        values: Mapping[str, object] | None = None,
    ) -> Self:
        """Return a message of a catalogue; without `values` the template has no fields, or not yet."""
        english = template if plural is None or count == 1 else plural
        if values is not None:
            english = english.format(**{name: _inner(it, ENGLISH) for name, it in values.items()})
        self = super().__new__(cls, english)
        self._template, self._plural, self._count = template, plural, count
        self._values = values
        return self

    def format(self, *_: object, **values: object) -> "Message":
        """Return the message with its fields filled in; values that are messages are translated with it."""
        return Message(self._template, self._plural, self._count, values)

    def __format__(self, spec: str) -> str:
        """Return the text for an f-string, in the language of the process's reader."""
        return format(self.in_language(READER_LANGUAGE.get()), spec)

    def __add__(self, other: str) -> "Message":
        return join("", (self, other))

    def __radd__(self, other: str) -> "Message":
        return join("", (other, self))

    def in_language(self, language: str) -> str:
        """Return the text in one of `LANGUAGES`; in English where the catalogue has no translation."""
        template = _look_up(language, self._template, self._plural, self._count)
        if self._values is None:
            return template
        values = {name: _inner(value, language) for name, value in self._values.items()}
        return template.format(**values)


class MessageList(Message):
    """Several texts, one after the other."""

    __slots__ = ("_parts", "_separator")

    _parts: tuple[str, ...]
    _separator: str

    def __new__(cls, separator: str, parts: Iterable[str]) -> Self:
        """Return the texts with a separator between them."""
        texts = tuple(parts)
        self = super().__new__(cls, separator.join(texts))
        self._parts, self._separator = texts, separator
        return self

    def in_language(self, language: str) -> str:
        """Return the texts in one of `LANGUAGES`; those that are no messages stay as they are."""
        return self._separator.join(translate(part, language) for part in self._parts)


class ErrorMessage(Message):
    """An error whose words have no translation: other languages put its kind before them."""

    __slots__ = ("_kind",)

    _kind: Message

    def __new__(cls, words: str, kind: Message) -> Self:
        """Return the words of an error, which are English, with a sentence about its kind."""
        self = super().__new__(cls, words)
        self._kind = kind
        return self

    def in_language(self, language: str) -> str:
        """Return the words alone in English; else with the translated kind before them."""
        if language == ENGLISH:
            return str(self)
        original = _("{kind} Choir says: {words}").format(kind=self._kind, words=str(self))
        return original.in_language(language)


def _(text: str) -> Message:
    """Return a message by its English text; fields such as `{agent}` are filled in by `format`."""
    return Message(text)


def ngettext(singular: str, plural: str, count: int, **values: object) -> Message:
    """Return a message that depends on a number, with its values; `{count}` is the number with separators."""
    return Message(singular, plural, count, {"count": f"{count:,}", **values})


def join(separator: str, parts: Iterable[str]) -> MessageList:
    """Return texts and messages as one message; `str.join` would lose the translations."""
    return MessageList(separator, parts)


def translate(text: str, language: str) -> str:
    """Return a message in a language; a text that is no message stays as it is."""
    return text.in_language(language) if isinstance(text, Message) else text


def choose_language(*tags: str) -> str:
    """Return the language of `LANGUAGES` for the first tag that names one, such as `de-AT`; else English."""
    return next(filter(None, map(choose_tag, tags)), ENGLISH)


def choose_tag(tag: str) -> str | None:
    """Return the language of `LANGUAGES` that a tag or a locale such as `de_AT.UTF-8` names, or None."""
    primary = tag.replace("_", "-").split("-", 1)[0].split(".", 1)[0].lower()
    return primary if primary in LANGUAGES else None


def fields_of(template: str) -> frozenset[str]:
    """Return the names of the fields of a template; raises ValueError if it is none."""
    return frozenset(
        name for _text, name, _spec, _conversion in string.Formatter().parse(template) if name
    )


def _inner(value: object, language: str) -> object:
    return translate(value, language) if isinstance(value, str) else value


def _look_up(language: str, template: str, plural: str | None, count: int) -> str:
    catalogue = load_catalogue(language)
    return (
        catalogue.gettext(template)
        if plural is None
        else catalogue.ngettext(template, plural, count)
    )


@lru_cache(maxsize=len(LANGUAGES))
def load_catalogue(language: str) -> gettext.NullTranslations:
    """Return the catalogue of a language; the texts of the code for English and for any other."""
    if language == ENGLISH or language not in LANGUAGES:
        return gettext.NullTranslations()
    return gettext.translation(DOMAIN, LOCALES, [language], fallback=True)


def catalogue_texts(language: str) -> Iterator[tuple[str, str]]:
    """Yield each English text of a catalogue with its translation; of a plural, both forms.

    `gettext` does not keep the English plural, so this reads the file: a header, then tables of lengths and
    offsets of the texts.
    """
    content = (LOCALES / language / "LC_MESSAGES" / f"{DOMAIN}.mo").read_bytes()
    count, *tables = struct.unpack_from("<III", content, 8)
    rows = ([_texts_at(content, table + 8 * row) for table in tables] for row in range(count))
    for english, translations in rows:
        yield from zip(english, translations, strict=False)


def _texts_at(content: bytes, entry: int) -> list[str]:
    length, start = struct.unpack_from("<II", content, entry)
    return content[start : start + length].decode().split("\0")
