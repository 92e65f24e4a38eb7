"""Times at which a schedule is due: a moment, an interval, or a cron expression in a time zone. Pure.

An interval is elapsed time and does not depend on a zone. When a zone skips an hour, a moment within it is
read with the offset before the change (RFC 5545), and a cron job with fixed hour and minute is due right
after the change. When a zone repeats an hour, the first of both times counts. A cron expression whose minute
or hour begins with `*` follows the clock: it is not due in a skipped hour, and again in a repeated one, as in
Debian's cron.
"""

import itertools
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import assert_never
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.schedules import TimingKind

MIN_INTERVAL = timedelta(minutes=1)
MAX_DURATION = timedelta(days=3_660)
MAX_LISTED = 100
"""Due times that are listed one by one; older ones are one entry."""
_DURATION = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.IGNORECASE)
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d")
_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_WINDOWS = tuple(timedelta(hours=hours) for hours in (1, 24, 31 * 24, 366 * 24, 100 * 366 * 24))


@dataclass(frozen=True, slots=True)
class Once:
    """A single moment, in UTC."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Interval:
    """Multiples of a duration after a moment."""

    anchor: datetime
    every: timedelta


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression with five fields, in a time zone."""

    expression: str
    zone: str


Timing = Once | Interval | Cron


@dataclass(frozen=True, slots=True)
class DueTimes:
    """Due times up to now, the newest last."""

    times: tuple[datetime, ...]
    since: datetime | None = None
    """The first of further due times, before `times`, that are not listed; None: there are none."""


def parse_duration(text: str) -> timedelta:
    """Return a duration such as `90s`, `5m`, `1h30m`, `2d` or `1w`. Raises InvalidRequest."""
    compact = "".join(text.split())
    match = _DURATION.fullmatch(compact)
    if not compact or match is None:
        raise InvalidRequest(
            _("{text!r} is not a duration; write for example 90s, 5m, 1h30m, 2d or 1w.").format(
                text=text[:40]
            )
        )
    parts = {unit: int(n[:9]) for unit, n in zip(_UNITS, match.groups(), strict=True) if n}
    try:
        duration = timedelta(**parts)
    except OverflowError:
        duration = timedelta.max
    if duration > MAX_DURATION:
        raise InvalidRequest(_("{text!r} is longer than ten years.").format(text=text[:40]))
    return duration


def parse_timing(kind: TimingKind, value: str, zone: str, now: datetime) -> Timing:
    """Return the timing that a person wrote. Raises InvalidRequest, also for a moment in the past."""
    match kind:
        case "in":
            return Once(now + parse_duration(value))
        case "at":
            return Once(_parse_moment(value, zone, now))
        case "every":
            every = parse_duration(value)
            if every < MIN_INTERVAL:
                raise InvalidRequest(
                    _("every {value}: the shortest interval is one minute.").format(
                        value=value[:40]
                    )
                )
            return Interval(now, every)
        case "cron":
            cron = Cron(" ".join(value.split()), zone)
            _check_cron(cron, now)
            return cron
        case _:
            assert_never(kind)


def next_due(timing: Timing, after: datetime) -> datetime | None:
    """Return the first due time later than `after`, in UTC; None if there is none."""
    return next(_due_after(timing, after), None)


def shortest_gap(timing: Timing, now: datetime) -> timedelta | None:
    """Return the shortest gap between the next three due times; None if it runs once."""
    # Of three due times of a cron expression with several minutes, two are in the same hour.
    due = tuple(itertools.islice(_due_after(timing, now), 3))
    return min((later - earlier for earlier, later in itertools.pairwise(due)), default=None)


def due_until(timing: Timing, first: datetime, now: datetime) -> DueTimes:
    """Return the due times from `first`, which is one of them, until `now`."""
    if first > now:
        return DueTimes(())
    following = itertools.takewhile(lambda due: due <= now, _due_after(timing, first))
    times = (first, *itertools.islice(following, MAX_LISTED))
    if len(times) <= MAX_LISTED:
        return DueTimes(times)
    return DueTimes(_newest(timing, first, now), since=first)


def _newest(timing: Timing, first: datetime, now: datetime) -> tuple[datetime, ...]:
    """Return the newest due times; the search begins shortly before now, because there may be many."""
    times: deque[datetime] = deque(maxlen=MAX_LISTED)
    for window in _WINDOWS:
        start = max(first, now - window)
        times.extend(itertools.takewhile(lambda due: due <= now, _due_after(timing, start)))
        if len(times) == MAX_LISTED or start == first:
            break
        times.clear()
    return tuple(times)


def _due_after(timing: Timing, after: datetime) -> Iterator[datetime]:
    match timing:
        case Once(at):
            if at > after:
                yield at
        case Interval(anchor, every):
            number = max(1, (after - anchor) // every + 1)
            while True:
                yield anchor + number * every
                number += 1
        case Cron(expression, zone):
            last = after
            for local in CronSim(expression, after.astimezone(ZoneInfo(zone))):
                due = local.astimezone(UTC)
                # in the second pass of a repeated hour, the first pass would come again
                if due > last:
                    last = due
                    yield due
        case _:
            assert_never(timing)


def _check_cron(cron: Cron, now: datetime) -> None:
    try:
        first = next_due(cron, now)
    except CronSimError as error:
        raise InvalidRequest(
            _(
                "The cron expression {expression!r} is invalid: {error}. It has five fields: minute, "
                "hour, day of month, month, day of week; for example `0 8 * * MON-FRI`."
            ).format(expression=cron.expression[:80], error=error)
        ) from None
    if first is None:
        raise InvalidRequest(
            _("The cron expression {expression!r} is never due.").format(
                expression=cron.expression[:80]
            )
        )


def _parse_moment(text: str, zone: str, now: datetime) -> datetime:
    """Return a moment from ISO 8601, or from a time of day, which is the next one. Raises InvalidRequest."""
    zone_info, clean = ZoneInfo(zone), text.strip()
    try:
        if _TIME_OF_DAY.fullmatch(clean):
            hour, minute = map(int, clean.split(":"))
            today = now.astimezone(zone_info).date()
            candidates = (
                datetime.combine(today + timedelta(days), time(hour, minute), zone_info)
                for days in (0, 1)
            )
            return next(due for moment in candidates if (due := moment.astimezone(UTC)) > now)
        moment = datetime.fromisoformat(clean)
    except ValueError:
        raise InvalidRequest(
            _(
                "{text!r} is not a time; write 08:00, 2026-12-24 18:00, or the same with an offset: "
                "2026-12-24T18:00+01:00."
            ).format(text=text[:40])
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_info)
    at = moment.astimezone(UTC)
    if at <= now:
        raise InvalidRequest(_("{text} ({zone}) has passed.").format(text=text[:40], zone=zone))
    if at - now > MAX_DURATION:
        raise InvalidRequest(_("{text} is more than ten years from now.").format(text=text[:40]))
    return at
