"""The file `cron/jobs.json` of OpenClaw, nanobot and Hermes Agent."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.redactor import mask_likely_keys
from choirctl.imports.fields import JsonDict, number_of, object_of, objects_of, text_of
from choirctl.imports.items import Item, Omission, ScheduleItem
from choirctl.imports.source_files import SourceFiles, read_text
from choirctl.imports.times import EARLIEST, format_duration

CRON_FIELDS = 5
MAX_TEXT = 4_000


def read_jobs(files: SourceFiles, name: str) -> Iterator[Item]:
    """Yield the jobs of a file. One that is off or cannot be a schedule of Choir is reported."""
    try:
        document = json.loads(read_text(files, name))
    except (ValueError, RecursionError, InvalidRequest) as error:
        yield Omission(name, _("it cannot be read ({error})").format(error=error))
        return
    if isinstance(document, list):
        document = {"jobs": document}
    for number, job in enumerate(objects_of(document, "jobs") if document else (), 1):
        place = _("{name}, job {number} ({text_of})").format(
            name=name, number=number, text_of=(text_of(job, "name") or text_of(job, "id"))[:60]
        )
        yield _job(job, place)


def _job(job: JsonDict, place: str) -> ScheduleItem | Omission:
    payload = object_of(job, "payload")
    text = (text_of(payload, "message", "text") or text_of(job, "prompt")).strip()
    text = mask_likely_keys(text)
    if job.get("enabled") is False:
        return Omission(place, _("it is switched off"))
    if not text or job.get("no_agent") is True:
        return Omission(place, _("it is no instruction to the agent"))
    if len(text) > MAX_TEXT:
        return Omission(
            place, _("its text is longer than {max_text:,} characters").format(max_text=MAX_TEXT)
        )
    times = _timing(object_of(job, "schedule"))
    if times is None:
        return Omission(place, _("its times are not known to Choir"))
    timing, value = times
    zone = text_of(object_of(job, "schedule"), "tz") or None
    job_id = text_of(job, "id") or text
    match timing:
        case "cron":
            return ScheduleItem(job_id, text, "cron", value, zone)
        case "every":
            return ScheduleItem(job_id, text, "every", value)
        case _:
            return ScheduleItem(job_id, text, "at", value, "UTC")


def _timing(schedule: JsonDict) -> tuple[str, str] | None:
    match text_of(schedule, "kind"):
        case "cron":
            expression = " ".join(text_of(schedule, "expr").split())
            return ("cron", expression) if expression.count(" ") == CRON_FIELDS - 1 else None
        case "every" | "interval":
            seconds = (
                number_of(schedule, "everyMs", "every_ms") / 1000
                or number_of(schedule, "minutes") * 60
                or number_of(schedule, "interval_seconds")
            )
            return ("every", format_duration(seconds)) if seconds else None
        case "at" | "once":
            return _once(schedule)
        case _:
            return None


def _once(schedule: JsonDict) -> tuple[str, str] | None:
    """Return a time in UTC; it may be in the future, which dates of messages may not."""
    time_text = text_of(schedule, "at", "run_at")
    try:
        if time_text:
            time = datetime.fromisoformat(time_text)
            time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
        else:
            time = datetime.fromtimestamp(number_of(schedule, "atMs", "at_ms") / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return ("at", f"{time:%Y-%m-%d %H:%M}") if time >= EARLIEST else None
