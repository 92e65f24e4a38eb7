"""Dates of exports as aware times: pure."""

from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
MILLISECONDS_FROM = 100_000_000_000
"""Numbers from here on are milliseconds: as seconds they would be later than the year 5000."""


def parse_time(value: JsonValue, now: datetime | None = None) -> datetime | None:
    """Return a time from a number (seconds or milliseconds since 1970) or ISO 8601 text, else None.

    Texts without a zone are UTC. Times before 1990 or after tomorrow are no dates of messages: None.
    """
    try:
        if isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            seconds = value / 1000 if value >= MILLISECONDS_FROM else value
            time = datetime.fromtimestamp(seconds, UTC)
        elif isinstance(value, str):
            time = datetime.fromisoformat(value)
            time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    latest = (now or datetime.now(UTC)) + timedelta(days=1)
    return time if EARLIEST <= time <= latest else None


def format_duration(seconds: float) -> str:
    """Return an interval as `choirctl schedule add --every` accepts it."""
    return f"{max(1, round(seconds))}s"
