"""Time zones by IANA name, and the timestamp of user messages in prompts."""

import re
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator

SENT_LINE = re.compile(
    r"^\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d [A-Za-z0-9_+/-]+[^\]\n]{0,60}\]\n"
)
"""The line before a user's text, as `format_sent_line` formats it."""
LATE_AFTER_S = 600
"""Seconds. A message that the agent reads later than this also shows when it was read."""


def _known(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        # ZoneInfoNotFoundError is a KeyError; a name that is a directory of zones raises an OSError.
        raise ValueError(
            f"there is no time zone {name[:64]!r}; use an IANA name, such as Europe/Berlin"
        ) from error
    return name


TimeZone = Annotated[str, AfterValidator(_known)]
"""An IANA time zone name."""


def format_sent_line(sent: datetime, read: datetime, zone: str) -> str:
    """Return when a message was sent, in the user's zone: `Sun 2026-11-22 08:03 Europe/Berlin`."""
    zone_info = ZoneInfo(zone)
    line = f"{_minute(sent.astimezone(zone_info))} {zone}"
    if (read - sent).total_seconds() > LATE_AFTER_S:
        line += f", read {_minute(read.astimezone(zone_info))}"
    return line


def _minute(moment: datetime) -> str:
    # not strftime("%a"), which follows the locale
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    return f"{day} {moment:%Y-%m-%d %H:%M}"
