"""Find the time that a question refers to: a date, a month, a year or a relative time. English and Chinese.

Pure. A date without a year (`in May`) matches any year.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
# "may" counts as a month only next to a number or after a preposition of time
_NAMES = "|".join(f"{name}|{name[:3]}\\.?" for name in _MONTHS if name != "may") + "|may"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d{2})"
_SHAPES = tuple(
    re.compile(shape, re.IGNORECASE)
    for shape in (
        rf"\b{_YEAR}-(?P<month>\d{{1,2}})(?:-(?P<day>\d{{1,2}}))?\b",
        rf"(?:{_YEAR}年)?(?P<month>\d{{1,2}})月(?:(?P<day>\d{{1,2}})[日號号])?",
        rf"\b{_DAY}(?: of)? (?P<name>{_NAMES})\b,?(?: {_YEAR}\b)?",
        rf"\b(?P<name>{_NAMES}) {_DAY}\b,?(?: {_YEAR}\b)?",
        rf"\b(?P<name>{_NAMES}),? {_YEAR}\b",
        rf"\b(?:in|during|since|of|last|this) (?P<name>{_NAMES})\b",
        rf"\b(?:in|during|since|of) {_YEAR}\b",
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
                return time
    lowered = question.casefold()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for words, (back, days) in _AGO.items():
        if words in lowered:
            since = midnight - timedelta(days=back)
            return QueriedTime(since=since, until=since + timedelta(days=days))
    return None


def _read(parts: dict[str, str | None]) -> QueriedTime | None:
    name = parts.get("name")
    month = _number(parts.get("month"))
    if name is not None:
        beginnings = [full[:3] for full in _MONTHS]
        month = beginnings.index(name[:3].casefold()) + 1
    year, day = _number(parts.get("year")), _number(parts.get("day"))
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):
        return None
    return QueriedTime(year, month, day)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
