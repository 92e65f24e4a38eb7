"""Service for mail that starts work: a gateway offers mail of nobody in `dms`, and triggers take it.

A mail is offered twice: first what its headers say, and its content only if a trigger wants it. Each trigger
that matches stores a delivery, before the gateway marks the mail as read. Nothing is ever answered.
"""

from collections import deque
from dataclasses import dataclass, field

import structlog

from choir_common.clock import Clock
from choir_common.redactor import Redactor
from choir_common.wire.trigger_config import TriggerConfig
from choir_common.wire.triggers import MAX_MAIL_DMS, MailContent, MailDecision, MailOffer
from choir_control.configuration.current import ConfigService
from choir_control.conversations.triggers.mail_rules import (
    clean_files,
    describe_missing,
    find_matches,
    find_refusal,
    make_values,
)
from choir_control.conversations.triggers.records import NewDelivery, trigger_target
from choir_control.conversations.triggers.store import TriggerStore
from choir_control.conversations.triggers.template import render_text
from choir_control.conversations.triggers.worker import TriggerWorker
from choir_control.request_limits import RateBucket

log = structlog.get_logger("choir.triggers")

NOTED_REASON = 300
REMEMBERED = 200


@dataclass(slots=True)
class MailTriggerState:
    """Figures of a trigger since control started."""

    bucket: RateBucket
    refused: int = 0
    last_refusal: str = ""
    refused_keys: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """The newest refused mails, because a mail can be offered more than once."""


class MailTriggerService:
    """Service that gives mail to the triggers that match it."""

    def __init__(
        self,
        store: TriggerStore,
        *,
        worker: TriggerWorker,
        configuration: ConfigService,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._store = store
        self._worker = worker
        self._configuration = configuration
        self._redactor = redactor
        self._clock = clock
        self._states: dict[str, MailTriggerState] = {}

    async def offer(self, offer: MailOffer) -> MailDecision:
        """Store a mail once for each trigger that takes it, and return what the gateway does with it."""
        is_taken, waits, wanting_dms = False, False, list[str]()
        key = f"{offer.sender.casefold()} {offer.mail_id}"
        config = self._configuration.current.config
        for name, trigger in find_matches(config, offer):
            if reason := find_refusal(trigger, offer):
                self._count_refusal(name, trigger, key=key, reason=f"{offer.sender}: {reason}")
            elif await self._store.is_stored("mail", name, key):
                is_taken = True
            elif offer.content is None:
                wanting_dms.append(trigger_target(config, name).dm)
            elif await self._deliver(name, trigger, offer=offer, content=offer.content, key=key):
                is_taken = True
            else:
                waits = True
        if wanting_dms:
            dms = tuple(dict.fromkeys(wanting_dms))[:MAX_MAIL_DMS]
            return MailDecision(outcome="send_content", dms=dms)
        if waits:
            return MailDecision(outcome="later")
        return MailDecision(outcome="taken" if is_taken else "not_taken")

    def state_of(self, name: str, trigger: TriggerConfig) -> MailTriggerState:
        """Return the figures of a trigger."""
        state = self._states.get(name)
        if state is None:
            bucket = RateBucket(trigger.per_minute, self._clock.monotonic())
            state = self._states[name] = MailTriggerState(bucket)
        return state

    def _count_refusal(self, name: str, trigger: TriggerConfig, *, key: str, reason: str) -> None:
        state = self.state_of(name, trigger)
        if key in state.refused_keys:
            return
        state.refused_keys.append(key)
        state.refused += 1
        state.last_refusal = reason[:NOTED_REASON]
        log.warning("mail not taken", trigger=name, reason=state.last_refusal)

    async def _deliver(
        self, name: str, trigger: TriggerConfig, *, offer: MailOffer, content: MailContent, key: str
    ) -> bool:
        """Store a mail for a trigger; return False if it must wait."""
        bucket = self.state_of(name, trigger).bucket
        if bucket.wait_s(trigger.per_minute, self._clock.monotonic()):
            return False
        target = trigger_target(self._configuration.current.config, name)
        attachments = clean_files(content.attachments.get(target.dm, ()), self._redactor)
        text = render_text(trigger.full_template, make_values(offer, content)).text
        text += describe_missing(len(content.files) - len(attachments))
        delivery = NewDelivery(
            target=target,
            text=self._redactor.redact(text.replace("\x00", "")),
            key=key,
            content_key=content.digest,
            size=offer.size,
            received_at=self._clock.now(),
            attachments=attachments,
            file_gateway=offer.gateway,
        )
        result = await self._store.add(delivery)
        if result is None:
            return False
        if not result.is_duplicate:
            self._worker.wake()
        return True
