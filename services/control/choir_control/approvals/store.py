"""Store of approval requests: the tables `pending_approvals` and `approval_nonces`.

A decision is one statement. The caller that changes the row from `pending` has decided. The same
statement stores the session's signal and the order to carry out the request.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, cast

import orjson
import structlog

from choir_common.approvals import request_digest
from choir_common.errors import Conflict, InvalidRequest, RateLimited
from choir_common.eventlog.chain import canonical_json
from choir_common.grants import offered_scopes
from choir_common.ids import new_id
from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.grants import GrantScope
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.model import JsonObject
from choir_common.wire.operator import ApprovalState
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from choir_common.wire.signals import ApprovalResolvedSignal
from choir_control.approvals.grant_store import GRANT_PREFIX, NewGrant, find_earlier_yes
from choir_control.approvals.nonce import ButtonChoices, ButtonNonce
from choir_control.approvals.server_questions import needs_form_values
from choir_control.approvals.statements import COLUMNS, DECIDE, FROM, NOTICE, PAGE, WAIT
from choir_control.approvals.texts import ADMIN_DECIDES, OPERATOR_DECIDES, format_request
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.store import Lease

log = structlog.get_logger("choir.approvals")

MAX_CALL_ID = 200
MAX_PAYLOAD_BYTES = 200_000
MAX_PENDING = 20
"""Open requests per session; nobody reads more than this with care."""
ApprovalStatus = Literal["pending", "approved", "rejected", "expired"]
Verdict = Literal["approved", "rejected"]
"""A decision by a human."""
Outcome = Literal["approved", "rejected", "expired"]
"""The end of a request; `expired` means that nobody decided in time."""

MAX_BASIS_BYTES = 400_000


@dataclass(frozen=True, slots=True)
class PressedButton:
    """The user and the button of a press; all fields must match the stored nonce."""

    nonce_sha256: bytes
    dm: str
    user_id: str
    callback_id: str


@dataclass(frozen=True, slots=True)
class PressedApproval:
    """The request of a pressed button; `answer` is the decision if this same press made it earlier."""

    approval_id: str
    answer: Verdict | None


@dataclass(frozen=True, slots=True)
class Approval:
    """A request and its state."""

    approval_id: str
    session_id: str
    agent_id: str
    call_id: str
    request_type: str
    payload: JsonObject
    digest: str
    status: ApprovalStatus
    created_at: datetime
    resolved_at: datetime | None
    decided_by: str | None
    dm: str
    """The conversation that was asked: the one whose turn asks, or an admin's."""
    gateway: str
    further_dm: str | None = None
    """The conversation whose turn asks, if that is not the home conversation of the session; else None."""
    home_dm: str = ""
    """The home conversation of the session."""
    scopes: tuple[GrantScope, ...] = ("once",)
    """The scopes that a yes may have."""
    job_id: str | None = None
    """The core job that makes the call."""
    pages: int = 0
    """Pages that a person opens before an approval in a conversation; 0: the notice shows all."""
    pages_shown: int = 0
    hosts: tuple[str, ...] = ()
    """Hosts that are new to the agent; a yes lets it reach them."""
    basis: JsonObject = field(default_factory=dict)
    """The context it was shown with: what it would change, and the versions that this is based on."""
    stage: str | None = None
    detail: str = ""
    """The result of carrying it out, or the error."""
    session_ended: bool = False
    """The session ended before the decision on its tool call, so the call cannot run any more."""

    @property
    def state(self) -> ApprovalState:
        """Return the decision or, once it is being carried out, the stage of that."""
        if self.status != "approved" or self.stage in (None, "waiting"):
            return self.status
        return cast(ApprovalState, self.stage)


class ApprovalStore:
    """Store of requests, their buttons and their decisions."""

    def __init__(self, database: Database, configuration: ConfigService) -> None:
        """`configuration` names the user of a conversation, the only one who may press a button."""
        self._database = database
        self._configuration = configuration

    def find_decider(self, lease: Lease) -> str:
        """Return the conversation that is asked about a call of a session."""
        return self._configuration.current.people.find_decider(lease.dm, lease.dms)

    async def find_by_call(self, lease: Lease, request: ApprovalRequest) -> ApprovalResponse | None:
        """Return the state of an earlier request by the same call, or None.

        Raises InvalidRequest for an invalid call_id, Conflict if the call requested something else
        before.
        """
        _check_call_id(request)
        async with self._database.connection() as connection:
            return await self._read_earlier(connection, lease, request)

    async def create(
        self, lease: Lease, request: ApprovalRequest, basis: JsonObject | None = None
    ) -> ApprovalResponse:
        """Store a request once per call, together with the context it is shown with; return its state.

        Raises InvalidRequest for a request that cannot be stored, Conflict if the same call requested
        something else before, RateLimited if the session has too many open requests.
        """
        _check_call_id(request)
        payload = canonical_json(request.payload)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise InvalidRequest(f"A request takes at most {MAX_PAYLOAD_BYTES} bytes of JSON.")
        basis_json = canonical_json(basis or {})
        if len(basis_json) > MAX_BASIS_BYTES:
            raise InvalidRequest("The change is too large to be shown to a human.")
        digest = request_digest(request.request_type, request.payload, basis)
        async with self._database.transaction() as connection:
            # Serialise the requests of one session, or the count below could be exceeded.
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
                f"approvals of {lease.session_id}",
            )
            earlier = await self._read_earlier(connection, lease, request)
            return earlier or await self._insert(
                connection, lease, request, (payload.decode(), basis_json.decode(), digest)
            )

    async def list_open_of_call(self, session_id: str, call_id: str) -> list[str]:
        """Return the open requests about a call, and those that its MCP server made during it."""
        rows = await self._database.fetch(
            "SELECT approval_id FROM choir_control.pending_approvals "
            "WHERE session_id = $1 AND status = 'pending' AND request_type IN ('call', 'mcp_question') "
            "AND (call_id = $2 OR starts_with(call_id, 'mcp-question:' || $2 || ':') "
            "OR starts_with(call_id, 'mcp-sampling:' || $2 || ':'))",
            session_id,
            call_id,
        )
        return [row["approval_id"] for row in rows]

    async def _read_earlier(
        self, connection: Connection, lease: Lease, request: ApprovalRequest
    ) -> ApprovalResponse | None:
        row = await connection.fetchrow(
            "SELECT approval_id, status, digest, basis, decided_by, answer "
            "FROM choir_control.pending_approvals "
            "WHERE session_id = $1 AND call_id = $2",
            lease.session_id,
            request.call_id,
        )
        if row is None:
            return None
        basis = orjson.loads(row["basis"])
        if row["digest"] != request_digest(request.request_type, request.payload, basis):
            raise Conflict(
                f"The call {request.call_id} requested something else before; a decision applies "
                "only to what was shown."
            )
        return ApprovalResponse(
            approval_id=row["approval_id"],
            status=row["status"],
            grant_id=_grant_id(row["decided_by"] or ""),
            values=None if row["answer"] is None else orjson.loads(row["answer"]),
        )

    async def _insert(
        self,
        connection: Connection,
        lease: Lease,
        request: ApprovalRequest,
        content: tuple[str, str, str],
    ) -> ApprovalResponse:
        payload, basis, digest = content
        by = await find_earlier_yes(connection, lease, request)
        if by is not None:
            return await self._insert_granted(connection, lease, request, content, by)
        await _check_open_requests(connection, lease)
        approval_id = new_id("appr")
        # the lines of a large request take too long for the event loop
        notice = await asyncio.to_thread(
            format_request,
            lease.agent_id,
            approval_id,
            request.request_type,
            request.payload,
            orjson.loads(basis),
        )
        scopes = _scopes_of(lease, request)
        await connection.execute(
            """
            INSERT INTO choir_control.pending_approvals (approval_id, session_id, agent_id, call_id,
                request_type, payload, digest, basis, scopes, job_id, pages, hosts, dm, gateway)
            VALUES ($1, $2, $3, $4, $5, $6::json, $7, $8::json, $9, $10, $11, $12, $13, (
                SELECT gateway FROM choir_control.session_conversations
                WHERE session_id = $2 AND dm = $13))
            """,
            approval_id,
            lease.session_id,
            lease.agent_id,
            request.call_id,
            request.request_type,
            payload,
            digest,
            basis,
            scopes,
            request.job_id,
            notice.pages,
            request.hosts,
            lease.turn_dm or None,
        )
        choices = ButtonChoices(_scopes_of_buttons(request, scopes), notice.pages)
        await self._send_request(connection, lease, approval_id, notice.text, digest, choices)
        return ApprovalResponse(approval_id=approval_id, status="pending")

    async def _insert_granted(
        self,
        connection: Connection,
        lease: Lease,
        request: ApprovalRequest,
        content: tuple[str, str, str],
        by: str,
    ) -> ApprovalResponse:
        """Store a request that an earlier yes answers; nobody is asked."""
        payload, basis, digest = content
        approval_id = new_id("appr")
        await connection.execute(
            """
            INSERT INTO choir_control.pending_approvals (approval_id, session_id, agent_id, call_id,
                request_type, payload, digest, basis, job_id, status, resolved_at, decided_by, dm, gateway)
            VALUES ($1, $2, $3, $4, $11, $5::json, $6, $7::json, $8, 'approved', clock_timestamp(), $9,
                $10, (SELECT gateway FROM choir_control.session_conversations
                 WHERE session_id = $2 AND dm = $10))
            """,
            approval_id,
            lease.session_id,
            lease.agent_id,
            request.call_id,
            payload,
            digest,
            basis,
            request.job_id,
            by,
            lease.turn_dm or None,
            request.request_type,
        )
        log.info(
            "approved by an earlier yes",
            approval_id=approval_id,
            by=by,
            agent=lease.agent_id,
            session=lease.session_id,
            digest=digest,
        )
        return ApprovalResponse(approval_id=approval_id, status="approved", grant_id=_grant_id(by))

    async def _send_request(
        self,
        connection: Connection,
        lease: Lease,
        approval_id: str,
        text: str,
        digest: str,
        choices: ButtonChoices,
    ) -> None:
        """Send the request to the conversation that decides, with buttons if its user is known."""
        nonce, decider = ButtonNonce.generate(), self.find_decider(lease)
        dm = self._configuration.current.config.dms.get(decider)
        if dm is not None and dm.is_group:
            # What a request contains is for those who decide; without an admin's conversation, operators.
            dm = None
            text = OPERATOR_DECIDES.format(agent=lease.agent_id, id=approval_id)
        language = self._configuration.current.people.language_in(decider)
        buttons_json = _buttons_json(nonce, choices, language) if dm else None
        place = (decider, dm.gateway) if dm and decider != lease.dm else (None, None)
        target_dm = decider if place[0] else lease.turn_dm or lease.dm
        text = self.translate(target_dm, text)
        await connection.execute(NOTICE, approval_id, text, buttons_json, *place)
        gateway = self._configuration.current.gateway_of(lease.dm)
        if decider != lease.dm and gateway is not None:
            notice = ADMIN_DECIDES.format(agent=lease.agent_id, id=approval_id)
            await connection.execute(
                "SELECT choir_control.say($1, $2, $3)",
                lease.dm,
                gateway,
                self.translate(lease.dm, notice),
            )
        if dm:
            await connection.execute(
                "INSERT INTO choir_control.approval_nonces "
                "(nonce_sha256, approval_id, dm, user_id, digest) VALUES ($1, $2, $3, $4, $5)",
                nonce.sha256,
                approval_id,
                decider,
                dm.user_id,
                digest,
            )

    def translate(self, dm: str, text: str) -> str:
        """Return a message in the language of a conversation."""
        return self._configuration.translate(dm, text)

    async def find_by_press(self, button: PressedButton) -> PressedApproval | None:
        """Return the request of a button, or None if the button is unknown, used, or another user's.

        A button used by this same press is still returned, so that a repetition gets the same
        answer.
        """
        row = await self._database.fetchrow(
            """
            SELECT approval_id, a.status, n.used_at FROM choir_control.approval_nonces AS n
            JOIN choir_control.pending_approvals AS a USING (approval_id)
            WHERE n.nonce_sha256 = $1 AND n.dm = $2 AND n.user_id = $3 AND n.digest = a.digest
              AND (n.used_at IS NULL OR n.callback_id = $4)
            """,
            button.nonce_sha256,
            button.dm,
            button.user_id,
            button.callback_id,
        )
        if row is None:
            return None
        return PressedApproval(row["approval_id"], row["status"] if row["used_at"] else None)

    async def find_by_message(self, dm: str, message_id: str) -> Approval | None:
        """Return the request that a message of a conversation asks about, or None."""
        row = await self._database.fetchrow(
            f"SELECT {COLUMNS}, a.basis {FROM} "
            "WHERE o.dm = $1 AND o.message_id = $2 ORDER BY a.created_at DESC LIMIT 1",
            dm,
            message_id,
        )
        return None if row is None else _approval(row)

    async def decide(
        self,
        approval_id: str,
        outcome: Outcome,
        by: str,
        text: str,
        press: PressedButton | None = None,
        grant: NewGrant | None = None,
        values: JsonObject | None = None,
    ) -> bool:
        """Decide, with the session's signal and the conversation's text; return False if it had no effect.

        An approval with `grant` also covers later calls. `values` are those of a server's form.

        Edits the message that asked. Without such a message the text is sent as a new one, unless
        the decision was made in that conversation.
        """
        body = ApprovalResolvedSignal(approval_id=approval_id, status=outcome)
        row = await self._database.fetchrow(
            DECIDE,
            approval_id,
            outcome,
            by,
            body.model_dump_json(),
            text,
            *(
                (press.nonce_sha256, press.dm, press.user_id, press.callback_id)
                if press
                else [None] * 4
            ),
            *(
                (
                    grant.grant_id,
                    grant.subject.tool,
                    grant.subject.destinations,
                    grant.subject.digest,
                    grant.scope,
                    grant.lifetime,
                )
                if grant
                else [None] * 6
            ),
            None if values is None else orjson.dumps(values).decode(),
        )
        return row is not None

    async def show_page(self, approval: Approval, page: int, text: str, nonce: ButtonNonce) -> None:
        """Replace the notice of a request with its page `page`, unless that was shown before."""
        scopes = _scopes_of_buttons(approval, approval.scopes)
        choices = ButtonChoices(scopes=scopes, pages=approval.pages, pages_shown=page)
        language = self._configuration.current.people.language_in(approval.dm)
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(
                PAGE, approval.approval_id, page, text, _buttons_json(nonce, choices, language)
            )
            if row is not None:
                await connection.execute(
                    "UPDATE choir_control.pending_approvals SET notice_id = $2 WHERE approval_id = $1",
                    row["approval_id"],
                    row["outbox_id"],
                )

    async def get(self, approval_id: str) -> Approval | None:
        """Return a request, or None."""
        row = await self._database.fetchrow(
            f"SELECT {COLUMNS}, a.basis {FROM} WHERE approval_id = $1",
            approval_id,
        )
        return None if row is None else _approval(row)

    async def list_newest(self, limit: int) -> list[Approval]:
        """Return requests without their `basis`: pending ones, the oldest first, then the newest decided."""
        rows = await self._database.fetch(
            f"SELECT {COLUMNS}, '{{}}'::json AS basis {FROM} "
            "ORDER BY a.status = 'pending' DESC, "
            "CASE WHEN a.status = 'pending' THEN created_at END, created_at DESC LIMIT $1",
            limit,
        )
        return [_approval(row) for row in rows]

    async def add_waiting_time(self, elapsed: timedelta, timeout: timedelta) -> list[str]:
        """Add `elapsed` to the waiting time of all open requests; return those beyond `timeout`."""
        rows = await self._database.fetch(WAIT, elapsed, timeout)
        return [row["approval_id"] for row in rows if row["overdue"]]


async def _check_open_requests(connection: Connection, lease: Lease) -> None:
    """Raise RateLimited if the session has too many open requests."""
    pending = await connection.fetchval(
        "SELECT count(*) FROM choir_control.pending_approvals "
        "WHERE session_id = $1 AND status = 'pending'",
        lease.session_id,
    )
    if pending >= MAX_PENDING:
        raise RateLimited(
            f"This session has {pending} open approval requests; more are accepted once one of "
            "them is decided."
        )


def _grant_id(by: str) -> str | None:
    """Return the id of the grant in `decided_by`, or None."""
    return by.removeprefix(GRANT_PREFIX) if by.startswith(GRANT_PREFIX) else None


def _scopes_of(lease: Lease, request: ApprovalRequest) -> tuple[GrantScope, ...]:
    scopes = offered_scopes(request.request_type, request.scopes, request.job_id)
    # A yes that outlives an incognito session would keep what it sent where.
    return tuple(s for s in scopes if s != "always" or lease.memory_mode != INCOGNITO)


def _scopes_of_buttons(
    request: ApprovalRequest | Approval, scopes: tuple[GrantScope, ...]
) -> tuple[GrantScope, ...]:
    """Return the scopes that buttons can approve: none if a yes needs values, which no button has."""
    return () if needs_form_values(request.request_type, request.payload) else scopes


def _check_call_id(request: ApprovalRequest) -> None:
    if not 0 < len(request.call_id) <= MAX_CALL_ID or "\x00" in request.call_id:
        raise InvalidRequest(f"call_id must have 1 to {MAX_CALL_ID} characters, and no NUL.")


def _buttons_json(nonce: ButtonNonce, choices: ButtonChoices, language: str) -> str:
    buttons = nonce.buttons(choices, language)
    return orjson.dumps([button.model_dump() for button in buttons]).decode()


def _approval(row: Record) -> Approval:
    documents = {name: orjson.loads(row[name]) for name in ("payload", "basis")}
    lists = {name: tuple(row[name]) for name in ("scopes", "hosts")}
    return Approval(**{**dict(row), **documents, **lists})
