"""Find the time that a question refers to: a date, a month, a year or a relative time.

Pure. In English, Chinese, Japanese, German and Spanish. A date without a year (`in May`) matches any year.
"""

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from choir_memory.text.tokens import query_terms

_MONTHS = (
    "january february march april may june july august september october november december",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
)
_NUMBER_OF_MONTH = {
    name: number for names in _MONTHS for number, name in enumerate(names.split(), 1)
}
_NUMBER_OF_MONTH |= {name[:3]: at for at, name in enumerate(_MONTHS[0].split(), 1)}
# longer names first; "may" counts as a month only next to a number or after a preposition of time
_NAMES = "|".join(
    f"{name}\\.?" if len(name) == 3 and name not in {"may", "mai"} else name
    for name in sorted(_NUMBER_OF_MONTH, key=len, reverse=True)
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?"
_YEAR = r"(?P<year>(?:19|20)\d{2})"
_BEFORE_A_MONTH = "in|during|since|of|last|this|im|seit|diesen|letzten|en|desde|durante"
_BEFORE_A_YEAR = "in|during|since|of|seit|jahr|jahre|en|desde|durante"
_SHAPES = tuple(
    re.compile(shape, re.IGNORECASE)
    for shape in (
        rf"\b{_YEAR}-(?P<month>\d{{1,2}})(?:-(?P<day>\d{{1,2}}))?\b",
        rf"(?:{_YEAR}年)?(?P<month>\d{{1,2}})月(?:(?P<day>\d{{1,2}})[日號号])?",
        rf"\b{_DAY}(?: of| de)? (?P<name>{_NAMES})\b,?(?: (?:de )?{_YEAR}\b)?",
        rf"\b(?P<name>{_NAMES}) {_DAY}\b,?(?: {_YEAR}\b)?",
        rf"\b(?P<name>{_NAMES}),? (?:de )?{_YEAR}\b",
        rf"\b(?:{_BEFORE_A_MONTH}) (?P<name>{_NAMES})\b",
        rf"\b(?:{_BEFORE_A_YEAR}) {_YEAR}\b",
        rf"{_YEAR}年",
    )
)
_AGO = {
    "today": (0, 1),
    "今天": (0, 1),
    "yesterday": (1, 1),
    "昨天": (1, 1),
    "last week": (14, 13),
    "上週": (14, 13),
    "上周": (14, 13),
    "last month": (62, 61),
    "heute": (0, 1),
    "gestern": (1, 1),
    "letzte woche": (14, 13),
    "letzten monat": (62, 61),
    "ayer": (1, 1),
    "la semana pasada": (14, 13),
    "el mes pasado": (62, 61),
    "今日": (0, 1),
    "昨日": (1, 1),
    "先週": (14, 13),
    "先月": (62, 61),
    "上個月": (62, 61),
    "上个月": (62, 61),
}
"""Days from today's midnight back to the start of the range, and the length of the range in days."""


@dataclass(frozen=True, slots=True)
class QueriedTime:
    """The time a question refers to; None matches anything."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    terms: frozenset[str] = field(default=frozenset(), compare=False)
    """Search terms of the words that name the time."""

    def holds(self, moment: datetime) -> bool:
        """Return whether the timestamp is in the requested range."""
        if self.since is not None and moment < self.since:
            return False
        if self.until is not None and moment >= self.until:
            return False
        pairs = ((self.year, moment.year), (self.month, moment.month), (self.day, moment.day))
        return all(queried is None or queried == own for queried, own in pairs)


def find_time(question: str, now: datetime) -> QueriedTime | None:
    """Return the first time that a question mentions, or None."""
    for shape in _SHAPES:
        for match in shape.finditer(question):
            if (time := _read(match.groupdict())) is not None:
                return replace(time, terms=frozenset(query_terms(match.group())))
    lowered = question.casefold()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for words, (back, days) in _AGO.items():
        if words in lowered:
            since = midnight - timedelta(days=back)
            until = since + timedelta(days=days)
            return QueriedTime(since=since, until=until, terms=frozenset(query_terms(words)))
    return None


def _read(parts: dict[str, str | None]) -> QueriedTime | None:
    name = parts.get("name")
    month = _number(parts.get("month"))
    if name is not None:
        month = _NUMBER_OF_MONTH[name.casefold().removesuffix(".")]
    year, day = _number(parts.get("year")), _number(parts.get("day"))
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):
        return None
    return QueriedTime(year, month, day)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
