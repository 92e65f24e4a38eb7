"""Registry of the tables of control, and what an erasure does with the text in them.

tests/contract/test_text_places.py fails if a table or a column with text is missing here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """A table whose rows of the person are deleted.

    `rows` is the SQL condition for them, with $1: the DMs, and $2: their sessions.
    """

    rows: str


@dataclass(frozen=True, slots=True)
class BlankedRows:
    """A table whose rows stay without their text; `rows` as in `DeletedRows`.

    `blank` has the new value of each column with text, in SQL. `free` are the columns without text.
    """

    rows: str
    blank: Mapping[str, str]
    free: frozenset[str]

    @property
    def assignments(self) -> str:
        """Return the SQL of SET."""
        return ", ".join(f"{column} = {value}" for column, value in self.blank.items())

    @property
    def has_text(self) -> str:
        """Return the SQL condition for rows that still have text."""
        return " OR ".join(
            f"t.{column}::text IS DISTINCT FROM ({value})::text"
            for column, value in self.blank.items()
        )


@dataclass(frozen=True, slots=True)
class FreeOfText:
    """A table without text of a person, and why."""

    why: str


Place = DeletedRows | BlankedRows | FreeOfText
_OF_SESSIONS = "t.session_id = ANY($2)"
_OF_DM = "t.dm = ANY($1)"

PLACES: Mapping[str, Place] = MappingProxyType(
    {
        "session_events": DeletedRows(_OF_SESSIONS),
        "signals": DeletedRows(
            "t.dm = ANY($1) OR t.session_id = ANY($2) OR t.inbox_id IN ("
            "SELECT i.inbox_id FROM choir_control.inbox AS i WHERE i.dm = ANY($1))"
        ),
        "received_files": DeletedRows(
            "t.inbox_id IN (SELECT i.inbox_id FROM choir_control.inbox AS i WHERE i.dm = ANY($1))"
        ),
        "schedule_runs": DeletedRows(
            "t.schedule_id IN ("
            "SELECT s.schedule_id FROM choir_control.schedules AS s WHERE s.dm = ANY($1))"
        ),
        "schedules": DeletedRows(_OF_DM),
        "trigger_deliveries": DeletedRows(_OF_DM),
        "trigger_files": FreeOfText("paths and digests of files that the owner lets Choir watch"),
        "pending_approvals": DeletedRows(_OF_SESSIONS),
        "grants": DeletedRows(_OF_SESSIONS),
        "approval_nonces": DeletedRows(_OF_DM),
        "channel_messages": DeletedRows(_OF_DM),
        "pairing_requests": DeletedRows(_OF_DM),
        "paired_users": DeletedRows(_OF_DM),
        # The rows stay, so that a repeated delivery is recognised and clients can resume after them.
        "inbox": BlankedRows(
            _OF_DM,
            {"text": "''", "attachments": "NULL", "hosts": "'{}'"},
            frozenset(
                [
                    "inbox_id",
                    "gateway",
                    "update_id",
                    "dm",
                    "session_id",
                    "message_id",
                    "edits",
                    "reply_to",
                ]
            ),
        ),
        "outbox": BlankedRows(
            "t.dm = ANY($1) OR t.copied_from = ANY($1)",
            {"text": "'(erased)'", "files": "NULL", "buttons": "NULL", "detail": "''"},
            frozenset(
                [
                    "dm",
                    "gateway",
                    "agent_id",
                    "session_id",
                    "kind",
                    "answers",
                    "status",
                    "message_id",
                    "copied_from",
                ]
            ),
        ),
        "operations": BlankedRows(
            "t.dm = ANY($1) AND t.status <> 'running'",
            {"step": "''", "error": "NULL", "result": "NULL"},
            frozenset(["operation_id", "kind", "subject", "status", "error_code", "dm", "gateway"]),
        ),
        "sessions": BlankedRows(
            _OF_SESSIONS,
            {"archive_error": "NULL", "blocked": "NULL"},
            frozenset(
                [
                    "session_id",
                    "agent_id",
                    "status",
                    "token_sha256",
                    "head_hash",
                    "continues",
                    "workspace",
                    "llm",
                    "dm",
                    "gateway",
                    "end_reason",
                    "resource_bindings",
                    "overrides",
                    "image",
                    "memory_mode",
                ]
            ),
        ),
        "agent_questions": FreeOfText("names of agents and conversations, and ids"),
        "api_clients": FreeOfText("names of programs and people; revoked with the person"),
        "approval_effects": FreeOfText("deleted with its approval"),
        "audit_anchor_heads": FreeOfText("ids and hashes"),
        "audit_anchors": FreeOfText("hashes"),
        "budget_grants": FreeOfText("amounts and ids"),
        "budget_notices": FreeOfText("names of budgets"),
        "budget_reservations": FreeOfText("amounts and ids"),
        "config_versions": FreeOfText("config.json, which an operator edits"),
        "conversation_memory": FreeOfText("settings"),
        "erased_logs": FreeOfText("hashes and signatures"),
        "gateway_lease": FreeOfText("an id and an address of the gateway"),
        "leader_term": FreeOfText("a number"),
        "leases": FreeOfText("names of resources"),
        "ledger": FreeOfText("amounts and ids"),
        "conversation_followers": FreeOfText("names of conversations, as in config.json"),
        "user_languages": FreeOfText("names of people and conversations, and language tags"),
        "person_identities": FreeOfText("names of people and their users, as in config.json"),
        "session_conversations": FreeOfText("names of conversations"),
        "session_epochs": FreeOfText("digests of tokens"),
        "session_resets": FreeOfText("ids and times"),
        "web_links": FreeOfText("digests of tokens, and names of people; deleted with the person"),
        "web_push_key": FreeOfText("key of this Choir at push services"),
        "web_push_subscriptions": FreeOfText(
            "addresses and keys of browsers; deleted with their session"
        ),
        "web_sessions": FreeOfText(
            "digests of tokens, names of people and of browsers; deleted with the person"
        ),
    }
)
