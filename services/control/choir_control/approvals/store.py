"""Store of approval requests: the tables `pending_approvals` and `approval_nonces`.

A decision is one statement. The caller that changes the row from `pending` has decided. The same
statement stores the session's signal and the order to carry out the request.
"""

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
from choir_control.approvals.texts import format_request
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

_COLUMNS = """approval_id, a.session_id, a.agent_id, call_id, request_type, payload, a.digest, a.status,
    created_at, resolved_at, decided_by, scopes, job_id, pages, pages_shown, hosts, s.dm, s.gateway, e.stage,
    COALESCE(e.detail, '') AS detail,
    request_type = 'call' AND s.ended_at IS NOT NULL
    AND s.status NOT IN ('starting', 'active', 'stopping', 'crashed')
    AND s.ended_at <= COALESCE(resolved_at, clock_timestamp()) AS session_ended"""
_FROM = """FROM choir_control.pending_approvals AS a JOIN choir_control.sessions AS s USING (session_id)
    LEFT JOIN choir_control.approval_effects AS e USING (approval_id)"""
# The statement that decides also checks the button: DM, user, nonce, digest and state. If one of
# them does not fit, nothing changes.
_DECIDE = """
WITH decided AS (
    UPDATE choir_control.pending_approvals AS a
    SET status = $2, resolved_at = clock_timestamp(), decided_by = $3
    WHERE approval_id = $1 AND status = 'pending' AND ($6::bytea IS NULL OR EXISTS (
        SELECT FROM choir_control.approval_nonces AS n
        WHERE n.nonce_sha256 = $6 AND n.approval_id = a.approval_id AND n.dm = $7 AND n.user_id = $8
          AND n.digest = a.digest AND n.used_at IS NULL))
    RETURNING approval_id, session_id, agent_id, job_id, request_type, digest, notice_id, hosts
), granted AS (
    INSERT INTO choir_control.grants (grant_id, agent_id, tool, destinations, digest, scope, session_id,
        job_id, approval_id, granted_by, expires_at, hosts)
    SELECT $10::text, agent_id, $11::text, $12::text[], $13::text, $14::text, session_id, job_id,
        approval_id, $3, clock_timestamp() + $15::interval, hosts
    FROM decided WHERE $2 = 'approved' AND $10::text IS NOT NULL
), used AS (
    UPDATE choir_control.approval_nonces AS n
    SET used_at = clock_timestamp(), callback_id = CASE WHEN n.nonce_sha256 = $6 THEN $9 END
    FROM decided WHERE n.approval_id = decided.approval_id AND n.used_at IS NULL
), ordered AS (
    INSERT INTO choir_control.approval_effects (approval_id, digest)
    SELECT approval_id, digest FROM decided WHERE $2 = 'approved' AND request_type <> 'call'
), told AS (
    INSERT INTO choir_control.signals (session_id, body)
    SELECT session_id, $4::json FROM decided JOIN choir_control.sessions USING (session_id)
    WHERE status IN ('starting', 'active', 'stopping', 'crashed')
), said AS (
    SELECT choir_control.say(dm, gateway, $5) AS dm
    FROM decided JOIN choir_control.sessions USING (session_id)
    WHERE notice_id IS NULL AND $3 <> 'dm ' || dm
), edited AS (
    SELECT choir_control.say_with(dm, gateway, $5, NULL, notice_id) AS outbox_id
    FROM decided JOIN choir_control.sessions USING (session_id) WHERE notice_id IS NOT NULL
)
SELECT session_id, (SELECT dm FROM said), (SELECT outbox_id FROM edited) FROM decided
"""
# Shows the next page in place of the notice, which has the buttons.
_PAGE = """
WITH shown AS (
    UPDATE choir_control.pending_approvals SET pages_shown = $2
    WHERE approval_id = $1 AND status = 'pending' AND pages_shown = $2 - 1 AND $2 <= pages
      AND notice_id IS NOT NULL
    RETURNING approval_id, session_id, notice_id
), said AS (
    SELECT approval_id, choir_control.say_with(dm, gateway, $3, $4::json, notice_id) AS outbox_id
    FROM shown JOIN choir_control.sessions USING (session_id)
)
SELECT approval_id, outbox_id FROM said
"""
_NOTICE = """
WITH said AS (
    SELECT choir_control.say_with(dm, gateway, $2, $3::json, NULL) AS outbox_id
    FROM choir_control.sessions WHERE session_id = $1
)
UPDATE choir_control.pending_approvals SET notice_id = (SELECT outbox_id FROM said)
WHERE approval_id = $4
"""
# The waiting time excludes jumps of the system clock and time in which nobody could have answered.
_WAIT = """
UPDATE choir_control.pending_approvals SET waited = waited + $1 WHERE status = 'pending'
RETURNING approval_id, waited >= $2 AS overdue
"""


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
    """The conversation that was asked."""
    gateway: str
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

    async def _read_earlier(
        self, connection: Connection, lease: Lease, request: ApprovalRequest
    ) -> ApprovalResponse | None:
        row = await connection.fetchrow(
            "SELECT approval_id, status, digest, basis, decided_by FROM choir_control.pending_approvals "
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
        approval_id = new_id("appr")
        notice = format_request(
            lease.agent_id, approval_id, request.request_type, request.payload, orjson.loads(basis)
        )
        scopes = _scopes_of(lease, request)
        await connection.execute(
            """
            INSERT INTO choir_control.pending_approvals (approval_id, session_id, agent_id, call_id,
                request_type, payload, digest, basis, scopes, job_id, pages, hosts)
            VALUES ($1, $2, $3, $4, $5, $6::json, $7, $8::json, $9, $10, $11, $12)
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
        )
        choices = ButtonChoices(scopes=scopes, pages=notice.pages)
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
                request_type, payload, digest, basis, job_id, status, resolved_at, decided_by)
            VALUES ($1, $2, $3, $4, 'call', $5::json, $6, $7::json, $8, 'approved', clock_timestamp(), $9)
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
        """Send the request to the conversation, with buttons if its user is known."""
        nonce = ButtonNonce.generate()
        dm = self._configuration.current.config.dms.get(lease.bindings.dm)
        buttons_json = _buttons_json(nonce, choices) if dm else None
        await connection.execute(_NOTICE, lease.session_id, text, buttons_json, approval_id)
        if dm:
            await connection.execute(
                "INSERT INTO choir_control.approval_nonces "
                "(nonce_sha256, approval_id, dm, user_id, digest) VALUES ($1, $2, $3, $4, $5)",
                nonce.sha256,
                approval_id,
                lease.bindings.dm,
                dm.user_id,
                digest,
            )

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
            f"SELECT {_COLUMNS}, a.basis {_FROM} JOIN choir_control.outbox AS o ON o.outbox_id = a.notice_id "
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
    ) -> bool:
        """Decide, with the session's signal and the conversation's text; return False if it had no effect.

        An approval with `grant` also covers later calls.

        Edits the message that asked. Without such a message the text is sent as a new one, unless
        the decision was made in that conversation.
        """
        body = ApprovalResolvedSignal(approval_id=approval_id, status=outcome)
        row = await self._database.fetchrow(
            _DECIDE,
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
        )
        return row is not None

    async def show_page(self, approval: Approval, page: int, text: str, nonce: ButtonNonce) -> None:
        """Replace the notice of a request with its page `page`, unless that was shown before."""
        choices = ButtonChoices(scopes=approval.scopes, pages=approval.pages, pages_shown=page)
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(
                _PAGE, approval.approval_id, page, text, _buttons_json(nonce, choices)
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
            f"SELECT {_COLUMNS}, a.basis {_FROM} WHERE approval_id = $1",
            approval_id,
        )
        return None if row is None else _approval(row)

    async def list_newest(self, limit: int) -> list[Approval]:
        """Return the newest requests, pending ones first, without their `basis`."""
        rows = await self._database.fetch(
            f"SELECT {_COLUMNS}, '{{}}'::json AS basis {_FROM} "
            "ORDER BY a.status = 'pending' DESC, created_at DESC LIMIT $1",
            limit,
        )
        return [_approval(row) for row in rows]

    async def add_waiting_time(self, elapsed: timedelta, timeout: timedelta) -> list[str]:
        """Add `elapsed` to the waiting time of all open requests; return those beyond `timeout`."""
        rows = await self._database.fetch(_WAIT, elapsed, timeout)
        return [row["approval_id"] for row in rows if row["overdue"]]


def _grant_id(by: str) -> str | None:
    """Return the id of the grant in `decided_by`, or None."""
    return by.removeprefix(GRANT_PREFIX) if by.startswith(GRANT_PREFIX) else None


def _scopes_of(lease: Lease, request: ApprovalRequest) -> tuple[GrantScope, ...]:
    scopes = offered_scopes(request.request_type, request.scopes, request.job_id)
    # A yes that outlives an incognito session would keep what it sent where.
    return tuple(s for s in scopes if s != "always" or lease.memory_mode != INCOGNITO)


def _check_call_id(request: ApprovalRequest) -> None:
    if not 0 < len(request.call_id) <= MAX_CALL_ID or "\x00" in request.call_id:
        raise InvalidRequest(f"call_id must have 1 to {MAX_CALL_ID} characters, and no NUL.")


def _buttons_json(nonce: ButtonNonce, choices: ButtonChoices) -> str:
    return orjson.dumps([button.model_dump() for button in nonce.buttons(choices)]).decode()


def _approval(row: Record) -> Approval:
    documents = {name: orjson.loads(row[name]) for name in ("payload", "basis")}
    lists = {name: tuple(row[name]) for name in ("scopes", "hosts")}
    return Approval(**{**dict(row), **documents, **lists})
