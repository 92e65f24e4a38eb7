"""Store of the tables `audit_anchors` and `audit_anchor_heads`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Protocol

from choir_common.eventlog.signature import SIGNATURE_BYTES, AuditKeyring
from choir_common.postgres.pool import Connection, Database, Record
from choir_control.log.audit.anchor import FIRST_ROOT, Anchor, AnchoredHead, compute_root

# $1: also sessions whose head is anchored already.
_HEADS = f"""
SELECT s.session_id, s.head_rev, s.head_hash, coalesce(e.signature,
    substring(x.signatures FROM ((s.head_rev - 1) * {SIGNATURE_BYTES} + 1)::int FOR {SIGNATURE_BYTES}))
    AS signature
FROM choir_control.sessions AS s
LEFT JOIN choir_control.session_events AS e ON e.session_id = s.session_id AND e.rev = s.head_rev
LEFT JOIN choir_control.erased_logs AS x ON x.session_id = s.session_id
WHERE s.head_rev > 0 AND ($1 OR NOT EXISTS (
    SELECT FROM choir_control.audit_anchor_heads AS h
    WHERE h.session_id = s.session_id AND h.rev = s.head_rev AND h.hash = s.head_hash))
ORDER BY s.session_id
"""  # noqa: S608 a number of ours
_IS_DUE = """
SELECT coalesce((SELECT max(at) FROM choir_control.audit_anchors),
                (SELECT min(started_at) FROM choir_control.sessions)) < clock_timestamp() - $1::interval
"""
_NEXT = """
SELECT coalesce(max(number), 0) + 1 AS number, clock_timestamp() AS at,
    (SELECT root FROM choir_control.audit_anchors ORDER BY number DESC LIMIT 1) AS previous_root
FROM choir_control.audit_anchors
"""
_INSERT = """
INSERT INTO choir_control.audit_anchors (number, at, root, signature) VALUES ($1, $2, $3, $4)
"""
_INSERT_HEADS = """
INSERT INTO choir_control.audit_anchor_heads (number, session_id, rev, hash)
SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::text[])
"""
_SAY = (
    "SELECT choir_control.say(dm, gateway, text) "
    "FROM unnest($1::text[], $2::text[], $3::text[]) AS t(dm, gateway, text)"
)
_ALL = """
SELECT a.number, a.at, a.root, a.signature, h.session_id, h.rev, h.hash
FROM choir_control.audit_anchors AS a LEFT JOIN choir_control.audit_anchor_heads AS h USING (number)
ORDER BY a.number, h.session_id
"""
_SESSIONS = "SELECT session_id FROM choir_control.sessions WHERE head_rev > 0 ORDER BY started_at"


@dataclass(frozen=True, slots=True)
class CurrentHead:
    """The head of a session's log now, with the signature of its event."""

    head: AnchoredHead
    signature: bytes | None


class AnchorNotice(Protocol):
    """The notice about an anchor."""

    def __call__(self, dm: str, anchor: Anchor) -> str:
        """Return it in the language of a conversation."""


class AnchorStore:
    """Store operations of anchors."""

    def __init__(self, database: Database, keyring: AuditKeyring) -> None:
        self._database = database
        self._keyring = keyring

    async def is_due(self, interval: timedelta) -> bool:
        """Return whether the newest anchor, or else the first session, is older than `interval`."""
        return bool(await self._database.fetchval(_IS_DUE, interval))

    async def list_heads(self, *, anchored_too: bool) -> list[CurrentHead]:
        """Return the heads of logs that no anchor contains yet, or of all logs."""
        rows = await self._database.fetch(_HEADS, anchored_too)
        return [
            CurrentHead(
                AnchoredHead(row["session_id"], row["head_rev"], row["head_hash"]), row["signature"]
            )
            for row in rows
        ]

    async def add(
        self, heads: tuple[AnchoredHead, ...], notices: Mapping[str, str], tell: AnchorNotice
    ) -> Anchor:
        """Store the next anchor and tell the DMs in `notices` (with their gateways) in one transaction.

        `tell` makes the notice for each.
        """
        async with self._database.transaction() as connection:
            anchor = await self._next(connection, heads)
            await connection.execute(
                _INSERT, anchor.number, anchor.at, anchor.root, anchor.signature
            )
            columns = (
                [head.session_id for head in heads],
                [head.rev for head in heads],
                [head.hash for head in heads],
            )
            await connection.execute(_INSERT_HEADS, anchor.number, *columns)
            texts = [tell(dm, anchor) for dm in notices]
            await connection.fetch(_SAY, list(notices), list(notices.values()), texts)
        return anchor

    async def list_all(self) -> list[Anchor]:
        """Return all anchors with their heads, oldest first."""
        rows = await self._database.fetch(_ALL)
        return [_anchor(list(group)) for _, group in groupby(rows, _number)]

    async def list_sessions(self) -> list[str]:
        """Return the sessions that have a log, oldest first."""
        return [row["session_id"] for row in await self._database.fetch(_SESSIONS)]

    async def _next(self, connection: Connection, heads: tuple[AnchoredHead, ...]) -> Anchor:
        row = await connection.fetchrow(_NEXT)
        if row is None:
            raise LookupError("an aggregate has a row")
        number, at = row["number"], row["at"]
        root = compute_root(row["previous_root"] or FIRST_ROOT, number, at, heads)
        return Anchor(number, at, root, self._keyring.sign("anchor", root), heads)


def _number(row: Record) -> int:
    return int(row["number"])


def _anchor(rows: list[Record]) -> Anchor:
    first = rows[0]
    heads = tuple(
        AnchoredHead(row["session_id"], row["rev"], row["hash"])
        for row in rows
        if row["session_id"]
    )
    return Anchor(first["number"], first["at"], first["root"], first["signature"], heads)
