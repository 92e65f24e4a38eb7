"""The provider usage that events and reports contain. Pure.

Contains amounts and ids only, never text of a conversation: a core job's name is left out, because a model
chose it.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from choir_common.lanes import EDGE_LANE, is_core, is_edge
from choir_common.wire.events import (
    Event,
    EventPayload,
    MemoryCompacted,
    ModelOutput,
    PictureDescribed,
    Reply,
    ToolResultCommitted,
    UsageRecorded,
    UserMessageStarted,
)
from choir_common.wire.money import ModelUsage, UsageKind, UsageReport
from choir_common.wire.speech import SpeechUsage

MAX_NAME = 200
MAX_TOKENS = 2**40
MAX_SECONDS = 1e9
"""A larger number is a mistake; its cost could not be computed, nor the event that states it stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderUsage:
    """Usage of one provider call, or of several that were reported together."""

    entry_id: str
    """Its idempotency key."""
    kind: UsageKind
    at: datetime
    name: str
    """The entry of config.json; empty if unknown."""
    model: str
    """The provider's name of the model."""
    lane: str | None = None
    """`edge`, `core` or `session`; None outside sessions."""
    job_id: str | None = None
    calls: int = 1
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    audio_input_tokens: int = 0
    audio_output_tokens: int = 0
    image_tokens: int = 0
    audio_seconds: Decimal | None = None
    characters: int | None = None
    billed_usd: Decimal | None = None
    counted: bool = True
    """Whether the provider counted the tokens; otherwise they are estimates."""
    reservation: str = ""

    @property
    def tokens(self) -> int:
        """Return all tokens."""
        return self.prompt_tokens + self.completion_tokens


def usages_of_event(
    event: Event, payload: EventPayload, now: datetime
) -> tuple[ProviderUsage, ...]:
    """Return the usage that an event reports."""
    match payload:
        case ModelOutput() | UsageRecorded() | MemoryCompacted() | PictureDescribed():
            usage = _model_usage(event, payload, now)
            return () if usage is None else (usage,)
        case UserMessageStarted() | ToolResultCommitted() | Reply():
            return tuple(
                _speech_usage(event, number, speech, now)
                for number, speech in enumerate(payload.usage)
            )
        case _:
            return ()


def _model_usage(
    event: Event,
    payload: ModelOutput | UsageRecorded | MemoryCompacted | PictureDescribed,
    now: datetime,
) -> ProviderUsage | None:
    if not payload.model:
        return None  # compacted without a model
    if payload.usage is None and not (payload.prompt_tokens or payload.completion_tokens):
        return None  # a failed call, or a log of an older version
    usage = ProviderUsage(
        entry_id=f"{event.session_id}:{event.rev}",
        kind="chat",
        at=_time(event.at, now),
        name="",
        model=_clean(payload.model),
        lane=_lane(event.lane),
        prompt_tokens=_count(payload.prompt_tokens),
        completion_tokens=_count(payload.completion_tokens),
        cached_tokens=_count(payload.cached_tokens),
    )
    return usage if payload.usage is None else _with_details(usage, payload.usage)


def _speech_usage(event: Event, number: int, speech: SpeechUsage, now: datetime) -> ProviderUsage:
    # The turn of a core lane is its job.
    job_id = event.payload.get("turn_id") if is_core(event.lane) else None
    seconds = speech.audio_seconds
    return ProviderUsage(
        # An event may have several.
        entry_id=f"{event.session_id}:{event.rev}:{number}",
        kind=speech.kind,
        at=_time(event.at, now),
        name=_clean(speech.name),
        model=_clean(speech.model),
        lane=_lane(event.lane),
        job_id=_clean(job_id) if isinstance(job_id, str) else None,
        prompt_tokens=_count(speech.input_tokens or 0),
        completion_tokens=_count(speech.output_tokens or 0),
        audio_input_tokens=_count(speech.audio_input_tokens or 0),
        audio_seconds=None if seconds is None else Decimal(repr(min(seconds, MAX_SECONDS))),
        characters=None if speech.characters is None else _count(speech.characters),
        reservation=_clean(speech.reservation),
    )


def usage_of_report(report: UsageReport) -> ProviderUsage:
    """Return the usage in a report of memory."""
    usage = ProviderUsage(
        entry_id=_clean(report.report_id),
        kind=report.kind,
        at=report.at,
        name=_clean(report.name),
        model=_clean(report.model),
        calls=report.calls,
        prompt_tokens=_count(report.prompt_tokens),
        completion_tokens=_count(report.completion_tokens),
        cached_tokens=_count(report.cached_tokens),
    )
    return _with_details(usage, report.usage)


def _with_details(usage: ProviderUsage, details: ModelUsage) -> ProviderUsage:
    return replace(
        usage,
        name=_clean(details.name) or usage.name,
        job_id=_clean(details.job_id) if details.job_id else None,
        cache_write_tokens=_count(details.cache_write_tokens),
        cache_write_1h_tokens=_count(details.cache_write_1h_tokens),
        reasoning_tokens=_count(details.reasoning_tokens),
        audio_input_tokens=_count(details.audio_input_tokens),
        audio_output_tokens=_count(details.audio_output_tokens),
        image_tokens=_count(details.image_tokens),
        billed_usd=details.billed_usd,
        counted=details.counted,
        reservation=_clean(details.reservation),
    )


def _lane(lane: str) -> str:
    if is_core(lane):
        return "core"
    if is_edge(lane):
        return EDGE_LANE
    return lane if lane == "session" else "other"


def _time(text: str, now: datetime) -> datetime:
    """Return an event's time. One without a zone or from the future counts as now."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return now
    return min(moment.astimezone(UTC), now) if moment.tzinfo is not None else now


def _clean(text: str) -> str:
    # Postgres stores no NUL in text.
    return text.replace("\x00", "")[:MAX_NAME]


def _count(tokens: int) -> int:
    return min(max(tokens, 0), MAX_TOKENS)
