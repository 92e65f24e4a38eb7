"""End and suspension of sessions, with a notice to users whose messages will not be answered.

If a user still waits, control appends `session_abandoned` under a fresh epoch; the same statement
creates its outbox row.
"""

from collections.abc import Mapping

import structlog

from choir_common.clock import Clock
from choir_common.errors import Conflict
from choir_common.eventlog.chain import link_event
from choir_common.i18n import _, join, ngettext
from choir_common.wire.events import Event, SessionAbandoned, SessionStopped, SessionSuspended
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.operator import SessionStatus
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.sessions.closing_store import ClosingSnapshot, ClosingStore
from choir_control.agents.sessions.record import (
    LIVE_STATUSES,
    RESUMABLE_STATUSES,
    START_AGAIN_REASONS,
    STOPPED_BY,
    SessionRow,
)
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.archiving.archiver import SessionArchiver
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.retention.content_eraser import SessionContentEraser
from choir_control.log.signals.notifier import Notifier, OutboxRescanner

log = structlog.get_logger("choir.sessions")

ATTEMPTS = 5


class SessionCloser:
    """Service that ends or suspends sessions."""

    def __init__(
        self,
        *,
        store: ClosingStore,
        sessions: SessionStore,
        authenticator: LeaseAuthenticator,
        notifier: Notifier,
        clock: Clock,
        outbox: OutboxRescanner,
        runtime: AgentRuntime,
        archiver: SessionArchiver,
        content_eraser: SessionContentEraser,
        configuration: ConfigService,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._authenticator = authenticator
        self._notifier = notifier
        self._clock = clock
        self._outbox = outbox
        self._runtime = runtime
        self._archiver = archiver
        self._content_eraser = content_eraser
        self._configuration = configuration

    async def stop(self, session_id: str, reason: str, *, said_goodbye: bool = False) -> None:
        """End a session that was stopped, or suspend it if a turn or job may be open.

        An agent that terminates in order has stored whether work is open; a killed one has not, so its
        session is suspended. A suspended session keeps its messages, and the next start resumes them as after
        a crash. Its user is told, unless the agent is started again at once or the stop was a command of the
        same conversation.
        """
        snapshot = await self._store.load(session_id, with_waiting=False)
        if snapshot is None or snapshot.session.status not in LIVE_STATUSES:
            self.announce(session_id)
            return
        # a session without events has no work to resume
        over = (None, SessionStopped.model_fields["type"].default)
        suspended = SessionSuspended.model_fields["type"].default
        last = snapshot.last_event
        if last in over or (said_goodbye and last != suspended):
            await self.close(session_id, "stopped", reason)
            return
        is_open = bool(snapshot.unanswered) or last == suspended
        notices = self._translate(_suspension_notices(snapshot, reason)) if is_open else {}
        if await self._sessions.suspend(session_id, reason, notices):
            for dm in notices:
                self._outbox.rescan(dm)
            log.info(
                "session suspended",
                session=session_id,
                agent=snapshot.session.agent_id,
                reason=reason,
                unanswered=len(snapshot.unanswered),
            )
        self.announce(session_id)

    async def close(
        self, session_id: str, status: SessionStatus, reason: str, *, with_waiting: bool = False
    ) -> SessionRow | None:
        """End a session in one transaction; return its row as it was before, or None if it was over already.

        `with_waiting` also closes the messages it had not consumed yet, in case one of them causes the
        crashes.

        Raises Conflict if the session keeps changing meanwhile.
        """
        # the agent's last heartbeats may change the head between the read and the write
        for _attempt in range(ATTEMPTS):
            snapshot = await self._store.load(session_id, with_waiting=with_waiting)
            if snapshot is None or snapshot.session.status not in (
                *LIVE_STATUSES,
                *RESUMABLE_STATUSES,
            ):
                self.announce(session_id)
                return None
            # always notify about an abandoned session: nothing will start its agent again
            must_notify = snapshot.unanswered or status == "abandoned"
            farewell = self._make_abandoned_event(snapshot, status) if must_notify else None
            text = _farewell_text(snapshot, status, farewell[1].dm) if farewell else ""
            notices = _farewells(snapshot, status, farewell[1].dm) if farewell else {}
            notices = self._translate(notices)
            # the event is English, like every event; its reader gets the text in the own language
            user_text = self._configuration.translate(farewell[1].dm, text) if farewell else ""
            if await self._store.end(snapshot, status, reason, farewell, user_text, notices):
                self.announce(session_id)
                for dm in (*notices, *((farewell[1].dm,) if farewell else ())):
                    self._outbox.rescan(dm)
                session = snapshot.session
                self._runtime.archive_log(session.agent_id, session_id)
                if session.memory_mode == INCOGNITO:
                    self._content_eraser.wake()
                else:
                    self._archiver.wake()
                log.info(
                    "session ended",
                    session=session_id,
                    agent=session.agent_id,
                    status=status,
                    reason=reason,
                    unanswered=len(snapshot.unanswered),
                )
                return session
        busy = _("Session {session} keeps changing while it is being closed; try again.")
        raise Conflict(busy.format(session=session_id))

    def _translate(self, notices: Mapping[str, str]) -> dict[str, str]:
        return {dm: self._configuration.translate(dm, text) for dm, text in notices.items()}

    def deliver(self, dm: str) -> None:
        """Make the outbox deliver what was just queued for a conversation (DM)."""
        self._outbox.rescan(dm)

    def announce(self, session_id: str) -> None:
        """Drop the cached lease and wake listeners, because a session or its epoch is over."""
        self._authenticator.forget(session_id)
        self._notifier.notify(session_id)

    def _make_abandoned_event(
        self, snapshot: ClosingSnapshot, status: SessionStatus
    ) -> tuple[Event, SessionAbandoned]:
        session, dm = snapshot.session, _first_recipient(snapshot, status)
        payload = SessionAbandoned(
            dm=dm,
            text=str(_farewell_text(snapshot, status, dm)),
            answers=snapshot.unanswered,
        )
        now = self._clock.now()
        return link_event(session.head, session.session_id, "control", payload, now), payload


def _suspension_notices(snapshot: ClosingSnapshot, reason: str) -> dict[str, str]:
    """Return what the users of a suspended session are told, by conversation.

    Nothing if it starts again at once, and nothing in the conversation in which it was stopped.
    """
    if reason in START_AGAIN_REASONS:
        return {}
    name = snapshot.session.agent_id
    notice = _(
        "{agent} was stopped with open work. It resumes the work when it is started again (/start "
        "{agent}, or choirctl agent start {agent})."
    ).format(agent=name)
    dms = (snapshot.session.bindings.dm, *snapshot.further_dms)
    return {dm: notice for dm in dms if reason != STOPPED_BY.format(dm=dm)}


def _first_recipient(snapshot: ClosingSnapshot, status: SessionStatus) -> str:
    """Return the conversation whose message is the session's last event: the home one if it has to know."""
    home_dm = snapshot.session.bindings.dm
    if status == "abandoned" or not snapshot.unanswered_dms or snapshot.count_in(home_dm):
        return home_dm
    return snapshot.unanswered_dms[0]


def _farewells(snapshot: ClosingSnapshot, status: SessionStatus, first: str) -> dict[str, str]:
    """Return the texts for the other conversations: all about an abandoned session, or those that wait."""
    waiting = snapshot.unanswered_dms
    dms = (snapshot.session.bindings.dm, *snapshot.further_dms) if status == "abandoned" else ()
    return {
        dm: _farewell_text(snapshot, status, dm)
        for dm in dict.fromkeys((*dms, *waiting))
        if dm != first
    }


def _farewell_text(snapshot: ClosingSnapshot, status: SessionStatus, dm: str) -> str:
    session, count = snapshot.session, snapshot.count_in(dm)
    values = {"agent": session.agent_id}
    again = ngettext(
        "Your message will not be answered; start it again (/start {agent}, or choirctl agent start "
        "{agent}) and send your message again.",
        "Your last {count} messages will not be answered; start it again (/start {agent}, or choirctl "
        "agent start {agent}) and send them again.",
        count,
        **values,
    )
    if status != "abandoned":
        return join(" ", (_("{agent} was stopped before it finished.").format(**values), again))
    crashes = ngettext(
        "{agent} crashed {count} time without finishing, so I have stopped trying.",
        "{agent} crashed {count} times in a row without finishing, so I have stopped trying.",
        max(session.crashes, session.idle_crashes) + 1,
        **values,
    )
    if count:
        return join(" ", (crashes, again))
    idle = _(
        "No message is waiting for a reply; to continue, start it again (/start {agent}, or choirctl "
        "agent start {agent})."
    )
    return join(" ", (crashes, idle.format(**values)))
