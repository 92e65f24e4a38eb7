"""Typing state and job cards, derived from a session's events. Pure functions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from pydantic import ValidationError

from choir_common.i18n import Message, _, join, ngettext, translate
from choir_common.lanes import dm_of
from choir_common.wire.activity import MAX_CARD, Card
from choir_common.wire.events import (
    NON_CLOSING_KINDS,
    CoreOutcome,
    CoreReported,
    CoreStarted,
    CoreStopped,
    Event,
    parse_payload,
)
from choir_common.wire.model import JsonObject

BUSY_EVENTS = ("user_msg", "report_begun", "model_output", "tool_call_requested")
JOB_EVENTS = ("core_started", "core_reported", "core_stopped")
MAX_CARD_TEXT = 600


def is_busy_after(events: Iterable[Event], before: bool) -> bool:
    """Return whether an edge lane is working on an answer after these events of it."""
    busy = before
    for event in events:
        if event.type == "reply" and event.payload.get("kind") not in NON_CLOSING_KINDS:
            busy = False
        elif event.type in BUSY_EVENTS:
            busy = True
    return busy


def last_reply_rev(events: Iterable[Event]) -> int | None:
    """Return the revision of the last of these events of an edge lane that ends an answer, or None."""
    revs = [
        event.rev
        for event in events
        if event.type == "reply" and event.payload.get("kind") not in NON_CLOSING_KINDS
    ]
    return max(revs, default=None)


def events_by_dm(events: Iterable[Event], home_dm: str) -> dict[str, list[Event]]:
    """Return the events of edge lanes by conversation."""
    by_dm: dict[str, list[Event]] = {}
    for event in events:
        dm = dm_of(event.lane, home_dm)
        if dm is not None:
            by_dm.setdefault(dm, []).append(event)
    return by_dm


def job_dms(events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    """Yield the id of each core job that starts, and the conversation that it works for."""
    for event in events:
        job_id, dm = event.payload.get("job_id"), event.payload.get("dm")
        if event.type == "core_started" and isinstance(job_id, str) and isinstance(dm, str):
            yield job_id, dm


@dataclass(frozen=True, slots=True)
class JobCard:
    """An update of a job's progress card, whose language is not chosen yet."""

    card_id: str
    text: Message
    done: bool = False

    def in_language(self, language: str) -> Card:
        """Return the card in one of `i18n.LANGUAGES`."""
        text = translate(self.text, language)
        return Card(card_id=self.card_id[:100], text=text[:MAX_CARD], done=self.done)


def job_cards(events: Iterable[Event]) -> Iterator[JobCard]:
    """Yield the card updates for core jobs; the start of a quiet job has none."""
    for event in events:
        if event.type not in JOB_EVENTS:
            continue
        try:
            payload = parse_payload(event)
        except ValidationError:
            continue
        match payload:
            case CoreStarted(verbosity="quiet"):
                continue
            case CoreStarted():
                yield JobCard(
                    payload.job_id,
                    join("", (f"⏳ {payload.job_name}: {_short(payload.task_spec)}",)),
                )
            case CoreReported():
                text = f"⏳ {payload.job_name}: {_reported(payload.body) or payload.kind}"
                yield JobCard(payload.job_id, join("", (text,)))
            case CoreStopped():
                yield JobCard(payload.job_id, _ended(payload), done=True)
            case _:
                continue


def _ended(event: CoreStopped) -> Message:
    steps = ngettext("{count} step", "{count} steps", event.steps)
    text = _("{mark} {job}: {outcome} ({seconds} s, {steps}).").format(
        mark=_mark(event.outcome),
        job=event.job_name,
        outcome=_said(event.outcome),
        seconds=f"{event.duration_ms / 1000:.0f}",
        steps=steps,
    )
    return join(" ", (text, _short(event.reason))) if event.reason else text


def _mark(outcome: CoreOutcome) -> str:
    return "✅" if outcome == "completed" else "⛔"


def _said(outcome: CoreOutcome) -> Message:
    match outcome:
        case "completed":
            return _("done")
        case "error":
            return _("failed")
        case "cancelled":
            return _("cancelled")
        case "budget_exceeded":
            return _("out of budget")
        case "crashed":
            return _("crashed")
        case _ as never:
            assert_never(never)


def _reported(body: JsonObject) -> str:
    """Return the text values of a report's body, joined."""
    texts = [value for value in body.values() if isinstance(value, str)]
    return _short(" ".join(texts))


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= MAX_CARD_TEXT else f"{plain[:MAX_CARD_TEXT]}…"
