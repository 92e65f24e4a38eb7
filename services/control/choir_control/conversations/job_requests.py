"""Core jobs that a person or a program starts directly: stored as a message, which the agent makes a job of.

The message's id is the job's, so neither a repeated request nor a crash starts a second one.
"""

import hashlib

import orjson

from choir_common.clock import Clock
from choir_common.errors import Conflict, InvalidRequest, NotFound, Unavailable
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_common.json_schema import find_schema_fault
from choir_common.redactor import Redactor
from choir_common.wire.core_jobs import (
    MAX_BUNDLE_BYTES,
    ContextBundle,
    JobOptions,
    JobQueued,
    NewJob,
    unknown_tools_message,
)
from choir_common.wire.harness_config import harnesses_of
from choir_common.wire.messages import InboundMessage
from choir_common.wire.schedules import WakeUp
from choir_control.configuration.current import ConfigService
from choir_control.conversations.inbox.store import InboxStore, StoredMessage
from choir_control.conversations.job_states import JOB_ID_PREFIX
from choir_control.conversations.session_overview import AgentOverview
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier

JOB_UPDATE_PREFIX = "job/"
"""Begins the `update_id` of these messages; no name of a conversation has a slash."""
ATTEMPTS = 3
NOT_RUNNING = _("{agent_id} is not running. Start it with `choirctl agent start {agent_id}`.")
NO_CONVERSATION = _("{agent_id} does not talk in {dm} now. Its conversations are: {served}.")


class JobRequests:
    """Starts core jobs."""

    def __init__(
        self,
        store: InboxStore,
        *,
        configuration: ConfigService,
        overview: AgentOverview,
        notifier: Notifier,
        signal_locks: SignalLocks,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._store, self._configuration = store, configuration
        self._overview, self._notifier, self._signal_locks = overview, notifier, signal_locks
        self._redactor, self._clock = redactor, clock

    async def start(self, agent_id: str, job: NewJob, *, by: str = "the operator") -> JobQueued:
        """Store the start of a job; `by` is who asks for it, as the agent reads it.

        Raises NotFound for an agent, a conversation, a harness or a tool that is not there, Conflict if the
        agent does not run or the key was used for another task, and InvalidRequest for an invalid schema.
        """
        await self._overview.require_known_agent(agent_id)
        self._check(agent_id, job)
        session = await self._overview.live_of(agent_id)
        if session is None:
            raise Conflict(NOT_RUNNING.format(agent_id=agent_id))
        check_tools(agent_id, job, self._overview.job_tools_of(session))
        served = await self._overview.conversations_of(session)
        dm = job.dm or served[0]
        gateway = self._configuration.current.gateway_of(dm)
        if dm not in served or gateway is None:
            raise NotFound(
                NO_CONVERSATION.format(agent_id=agent_id, dm=dm, served=", ".join(served))
            )
        message = InboundMessage(
            gateway=gateway,
            dm=dm,
            update_id=_update_id(agent_id, dm, job.idempotency_key),
            text=self._clean(job.task),
            sent_at=self._clock.now(),
        )
        wake_up, name = _wake_up(message, self._without_secrets(job), by)
        row = await self._store_once(message, wake_up)
        if row.duplicate and row.earlier_text != message.text:
            raise Conflict(
                _(
                    "Another job was started under this idempotency key before. This one was not started; "
                    "use a key of its own."
                )
            )
        if not row.duplicate:
            self._notifier.notify(dm)
        return JobQueued(
            agent_id=agent_id,
            session_id=session.session_id,
            dm=dm,
            job_id=f"{JOB_ID_PREFIX}{row.inbox_id}",
            name=name,
            duplicate=row.duplicate,
            seen_rev=0 if row.duplicate else session.head.rev,
        )

    def _check(self, agent_id: str, job: NewJob) -> None:
        config = self._configuration.current.config
        harnesses = sorted(harnesses_of(config.harnesses, agent_id))
        if job.harness is not None and job.harness not in harnesses:
            names = ", ".join(harnesses) or _("none")
            raise NotFound(
                _("harness: {agent_id} has no harness {harness!r} (it has: {names}).").format(
                    agent_id=agent_id, harness=job.harness, names=names
                )
            )
        if len(job.context_bundle.model_dump_json()) > MAX_BUNDLE_BYTES:
            raise InvalidRequest(
                _("context_bundle: it is larger than {max_bundle_bytes} bytes.").format(
                    max_bundle_bytes=MAX_BUNDLE_BYTES
                )
            )
        if job.output_schema is None:
            return
        if len(orjson.dumps(job.output_schema)) > MAX_BUNDLE_BYTES:
            raise InvalidRequest(
                _("output_schema: it is larger than {max_bundle_bytes} bytes.").format(
                    max_bundle_bytes=MAX_BUNDLE_BYTES
                )
            )
        fault = find_schema_fault(job.output_schema)
        if fault is not None:
            raise InvalidRequest(
                _("output_schema: it is not a valid JSON Schema: {fault}").format(fault=fault)
            )

    def _clean(self, text: str) -> str:
        return self._redactor.redact(text.replace("\x00", ""))

    def _without_secrets(self, job: NewJob) -> NewJob:
        """Return the request with a context in which secrets are redacted, as in its task."""
        bundle = job.context_bundle
        clean = ContextBundle(
            facts=tuple(map(self._clean, bundle.facts)),
            excerpts=tuple(map(self._clean, bundle.excerpts)),
            constraints=tuple(map(self._clean, bundle.constraints)),
        )
        return job.model_copy(update={"context_bundle": clean})

    async def _store_once(self, message: InboundMessage, wake_up: WakeUp) -> StoredMessage:
        sender = self._configuration.current.people.find_sender(message.dm, None)
        # Signals of a DM must be committed in the order of their numbers.
        async with self._signal_locks.of(message.dm):
            for _attempt in range(ATTEMPTS):
                row = await self._store.store_message(new_id("in"), message, sender, wake_up)
                if row is not None:
                    return row
        raise Unavailable(_("The same job is being stored elsewhere; try again."))


def check_tools(agent_id: str, job: NewJob, available: tuple[str, ...]) -> None:
    """Raise NotFound for tools that the agent's jobs cannot have.

    Before the agent has reported its tools, the agent itself checks the names when the job begins.
    """
    names = job.tool_constraints.allowed_tools
    message = unknown_tools_message(names, available) if available else ""
    if message:
        raise NotFound(f"tool_constraints.allowed_tools, for {agent_id}: {message}")


def _update_id(agent_id: str, dm: str, key: str | None) -> str:
    own = new_id("key") if key is None else hashlib.sha256(key.encode()).hexdigest()[:40]
    return f"{JOB_UPDATE_PREFIX}{agent_id}/{dm}/{own}"


def _wake_up(message: InboundMessage, job: NewJob, by: str) -> tuple[WakeUp, str]:
    """Return the mark of the message, and the job's name, which a repeated request has, too."""
    own = hashlib.sha256(message.update_id.encode()).hexdigest()[:6]
    name = job.name or f"job-{own}"
    options = JobOptions(**(job.choices() | {"name": name}))
    at = message.sent_at.isoformat(timespec="minutes")
    mark = WakeUp(summary=f"started by {by}, at {at}", by_agent=False, as_job=True, job=options)
    return mark, name
