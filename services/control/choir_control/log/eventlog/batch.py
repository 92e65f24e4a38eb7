"""Validation of a heartbeat's events, and the effects of storing them. Pure.

The hash chain is verified here. Whether it continues the durable head is checked by the append
statement.
"""

import asyncio
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.eventlog.chain import LogHead, canonical_json, find_break, head_of
from choir_common.wire.attachments import SentFile
from choir_common.wire.config_parts import MONEY_BUDGETS
from choir_common.wire.events import (
    NON_CLOSING_KINDS,
    ApprovalDecided,
    BudgetGranted,
    Cancelled,
    CompactionRequested,
    CoreStarted,
    CoreStopped,
    Event,
    EventPayload,
    InjectedInstruction,
    Reply,
    ReplyKind,
    SessionAbandoned,
    UserMessageStarted,
    parse_payload,
)
from choir_common.wire.rpc import HeartbeatRequest
from choir_common.wire.validation_messages import error_message
from choir_control.money.charges import Charge, PricedGrant, ReportedGrant
from choir_control.money.usage import ProviderUsage, usages_of_event
from choir_control.workspaces.spool import SpooledFile

MAX_REV = 2**53
MAX_SIGNAL = 2**62
CONTROL_LANE = "control"
# Events checked without a pause: a fraction of a millisecond in which the event loop serves nobody
# else.
EVENTS_PER_SLICE = 20
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class OutgoingReply:
    """A reply that the append also inserts into the outbox."""

    rev: int
    kind: ReplyKind
    text: str
    answers: str | None
    at: datetime
    dm: str
    event_hash: str = ""
    files: tuple[SentFile, ...] = ()
    """Files with the paths that the agent gave."""
    spooled_files: tuple[SpooledFile, ...] = ()
    """Copies of the files, made before the append."""


@dataclass(frozen=True, slots=True)
class FollowerReply:
    """A copy of a reply for a conversation that follows the one of the reply."""

    rev: int
    """The revision of the reply."""
    dm: str
    heading: str
    """Where the reply was given."""
    footer: str
    """The files of the reply, which are not copied; empty without files."""


@dataclass(frozen=True, slots=True)
class InboxUpdate:
    """The effect of a batch on one inbox row: taken up, answered, or both."""

    inbox_id: str
    consumed_rev: int | None
    answered_rev: int | None


@dataclass(frozen=True, slots=True)
class CompletedSignals:
    """The signals that a batch completes: by number, or by the approval that they are about."""

    signals: tuple[int, ...] = ()
    approvals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events that follow `base`, and their effects."""

    base: LogHead
    events: tuple[Event, ...]
    payloads: tuple[str, ...]
    inbox_updates: tuple[InboxUpdate, ...]
    replies: tuple[OutgoingReply, ...]
    completed_signals: CompletedSignals
    completes_turn: bool
    """True if a turn, a report or a core job ended; the count of crashes is then reset."""
    usages: tuple[ProviderUsage, ...] = ()
    """Usage of providers that the events report."""
    grants: tuple[ReportedGrant, ...] = ()
    charges: tuple[Charge, ...] = ()
    """The priced usages, for the ledger."""
    priced_grants: tuple[PricedGrant, ...] = ()
    copies: tuple[FollowerReply, ...] = ()

    @property
    def head(self) -> LogHead:
        """Return the head after this batch."""
        return LogHead(self.events[-1].rev, self.events[-1].hash) if self.events else self.base

    @property
    def has_no_effects(self) -> bool:
        """Return True if storing the events has no effect outside the log."""
        return not (
            self.inbox_updates
            or self.replies
            or self.grants
            or self.completed_signals != CompletedSignals()
        )


async def parse_heartbeat(
    request: HeartbeatRequest, session_id: str, dms: Collection[str]
) -> EventBatch:
    """Return the batch in a heartbeat, with its chain verified from `base_rev` on.

    Long heartbeats are checked in slices, so that other requests are served in between. Raises
    InvalidRequest if the heartbeat contradicts itself, contains an event that agents may not write, or
    replies to a conversation that is not among `dms`.
    """
    if not _HASH.fullmatch(request.hash_prev):
        raise InvalidRequest("hash_prev is not a sha256 in lower-case hexadecimal.")
    base = LogHead(request.base_rev, request.hash_prev)
    if request.new_rev > MAX_REV or request.base_rev + len(request.patches) != request.new_rev:
        raise InvalidRequest(
            f"new_rev {request.new_rev} is not base_rev {request.base_rev} plus "
            f"{len(request.patches)} events."
        )
    if request.hash_new != (request.patches[-1].hash if request.patches else request.hash_prev):
        raise InvalidRequest("hash_new is not the hash of the last event.")
    head, effects = base, _EffectCollector(dms)
    for start in range(0, len(request.patches), EVENTS_PER_SLICE):
        if start:
            await asyncio.sleep(0)
        events = request.patches[start : start + EVENTS_PER_SLICE]
        _check_chain(events, head, session_id)
        effects.add(events)
        head = head_of(events[-1])
    return effects.batch(base, request.patches)


def make_batch(base: LogHead, events: tuple[Event, ...], dms: Collection[str]) -> EventBatch:
    """Return the batch of `events` with the effects of storing them.

    Raises InvalidRequest for an event that agents may not write.
    """
    effects = _EffectCollector(dms)
    effects.add(events)
    return effects.batch(base, events)


def trim_batch(batch: EventBatch, durable: LogHead, dms: Collection[str]) -> EventBatch:
    """Return the part of a batch after the revision `durable`, which lies inside the batch."""
    events = tuple(event for event in batch.events if event.rev > durable.rev)
    return make_batch(durable, events, dms)


def make_copy(reply: OutgoingReply, dm: str) -> FollowerReply:
    """Return a copy of a reply for a conversation that follows the one of the reply."""
    names = ", ".join(file.name for file in reply.spooled_files)
    return FollowerReply(
        rev=reply.rev,
        dm=dm,
        heading=f"From {reply.dm}:",
        footer=f"Files in {reply.dm}: {names}" if names else "",
    )


class _EffectCollector:
    """Collector of the effects of storing events."""

    def __init__(self, dms: Collection[str]) -> None:
        self._dms = dms
        self._payloads: list[str] = []
        self._inbox_updates: dict[str, InboxUpdate] = {}
        self._replies: list[OutgoingReply] = []
        self._signals: list[int] = []
        self._approvals: list[str] = []
        self._completes = False
        self._usages: list[ProviderUsage] = []
        self._grants: list[ReportedGrant] = []

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self._add(event)
            self._payloads.append(canonical_json(event.payload).decode())

    def batch(self, base: LogHead, events: tuple[Event, ...]) -> EventBatch:
        return EventBatch(
            base,
            events,
            tuple(self._payloads),
            tuple(self._inbox_updates.values()),
            tuple(self._replies),
            CompletedSignals(tuple(self._signals), tuple(self._approvals)),
            self._completes,
            tuple(self._usages),
            tuple(self._grants),
        )

    def _add(self, event: Event) -> None:
        payload, now = _payload(event), datetime.now(UTC)
        self._usages += usages_of_event(event, payload, now)
        match payload:
            case UserMessageStarted(inbox_id=inbox_id):
                _add_inbox_update(self._inbox_updates, inbox_id, consumed=event.rev)
            case Reply() as reply:
                outgoing = _make_reply(event, reply, self._dms)
                if reply.kind != "silent":  # nobody is shown it
                    self._replies.append(outgoing)
                self._completes = self._completes or reply.kind not in NON_CLOSING_KINDS
                if reply.answers is not None and reply.kind not in NON_CLOSING_KINDS:
                    _add_inbox_update(self._inbox_updates, reply.answers, answered=event.rev)
            case InjectedInstruction() | Cancelled() | CompactionRequested() as outcome:
                if outcome.signal is not None and 0 < outcome.signal <= MAX_SIGNAL:
                    self._signals.append(outcome.signal)
            case ApprovalDecided(approval_id=approval_id):
                self._approvals.append(approval_id.replace("\x00", ""))
            case CoreStarted(answers=str(inbox_id)):
                _add_inbox_update(self._inbox_updates, inbox_id, answered=event.rev)
            case CoreStopped():
                self._completes = True
            case BudgetGranted(budget=budget) if budget in MONEY_BUDGETS:
                self._grants.append(ReportedGrant(event.rev, budget, now, event.lane))
            case SessionAbandoned():
                raise InvalidRequest(f"Event {event.rev}: only control may abandon a session.")
            case _:
                pass


def _check_chain(events: Iterable[Event], head: LogHead, session_id: str) -> None:
    """Raise InvalidRequest if events belong to another session, or do not form a chain that follows
    `head`."""
    for event in events:
        if event.session_id != session_id:
            raise InvalidRequest(f"Event {event.rev} belongs to another session.")
    chain_break = find_break(events, head)
    if chain_break:
        raise InvalidRequest(
            f"The chain breaks at revision {chain_break.rev}: {chain_break.reason}."
        )


def _payload(event: Event) -> EventPayload:
    if event.lane == CONTROL_LANE:
        raise InvalidRequest(f"Event {event.rev}: agents may not write to the lane {CONTROL_LANE}.")
    if any("\x00" in text for text in (event.lane, event.at)):
        raise InvalidRequest(f"Event {event.rev} holds a NUL character in its envelope.")
    try:
        return parse_payload(event)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(map(str, fault["loc"]))
        raise InvalidRequest(f"Event {event.rev}: {path}: {error_message(fault)}.") from None


def _make_reply(event: Event, reply: Reply, dms: Collection[str]) -> OutgoingReply:
    if reply.dm not in dms:
        names = ", ".join(map(repr, dms))
        raise InvalidRequest(
            f"Event {event.rev} replies to {reply.dm!r}, but this session is bound to {names}."
        )
    try:
        at = datetime.fromisoformat(event.at)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise InvalidRequest(
            f"Event {event.rev}: {event.at!r} is not an ISO 8601 time with a zone."
        )
    # Postgres cannot store NUL in text. The log keeps it as JSON, and no channel displays it.
    text = reply.text.replace("\x00", "")
    files = tuple(file for file in reply.attachments if "\x00" not in file.path + file.name)
    return OutgoingReply(
        rev=event.rev,
        kind=reply.kind,
        text=text,
        answers=_id(reply.answers),
        at=at,
        dm=reply.dm,
        event_hash=event.hash,
        files=files,
    )


def _add_inbox_update(
    updates: dict[str, InboxUpdate],
    inbox_id: str,
    *,
    consumed: int | None = None,
    answered: int | None = None,
) -> None:
    clean = _id(inbox_id)
    if clean is None:
        return
    old = updates.get(clean, InboxUpdate(clean, None, None))
    updates[clean] = InboxUpdate(
        clean,
        consumed if old.consumed_rev is None else old.consumed_rev,
        answered if old.answered_rev is None else old.answered_rev,
    )


def _id(text: str | None) -> str | None:
    return text.replace("\x00", "")[:200] if text else None
