"""Tables of approval requests and grants; see `tables`."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL

from choir_control.migrations.metadata import CLOCK, METADATA, NOW, SCHEMA, TIME

Table(
    "pending_approvals",
    METADATA,
    Column("approval_id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey(f"{SCHEMA}.sessions.session_id"), nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("request_type", Text, nullable=False),
    Column("payload", JSON, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'pending'::text")),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("resolved_at", TIME),
    Column("digest", Text, nullable=False, server_default=text("''::text")),
    Column("decided_by", Text),
    Column("basis", JSON, nullable=False, server_default=text("'{}'::json")),
    Column("waited", INTERVAL, nullable=False, server_default=text("'00:00:00'::interval")),
    Column("notice_id", BigInteger, ForeignKey(f"{SCHEMA}.outbox.outbox_id", ondelete="SET NULL")),
    Column("scopes", ARRAY(Text), nullable=False, server_default=text("'{once}'::text[]")),
    Column("job_id", Text),
    Column("pages", Integer, nullable=False, server_default=text("0")),
    Column("pages_shown", Integer, nullable=False, server_default=text("0")),
    Column("hosts", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    Column("dm", Text),
    Column("gateway", Text),
    Column("answer", JSON),
    Index("pending_approvals_by_age", text("created_at DESC")),
    Index(
        "pending_approvals_by_notice", "notice_id", postgresql_where=text("notice_id IS NOT NULL")
    ),
    Index(
        "pending_approvals_open",
        "session_id",
        "created_at",
        postgresql_where=text("status = 'pending'"),
    ),
    UniqueConstraint("session_id", "call_id"),
)

Table(
    "grants",
    METADATA,
    Column("grant_id", Text, primary_key=True),
    Column("agent_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("destinations", ARRAY(Text), nullable=False),
    Column("digest", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("job_id", Text),
    Column("approval_id", Text, nullable=False),
    Column("granted_by", Text, nullable=False),
    Column("granted_at", TIME, nullable=False, server_default=CLOCK),
    Column("expires_at", TIME),
    Column("revoked_at", TIME),
    Column("revoked_by", Text),
    Column("hosts", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    Column("dm", Text),
)

Table(
    "approval_effects",
    METADATA,
    Column(
        "approval_id",
        Text,
        ForeignKey(f"{SCHEMA}.pending_approvals.approval_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("digest", Text, nullable=False),
    Column("stage", Text, nullable=False, server_default=text("'waiting'::text")),
    Column("plan", JSON),
    Column("undo", JSON),
    Column("detail", Text, nullable=False, server_default=text("''::text")),
    Column("began_at", TIME),
    Column("ended_at", TIME),
    Column("undone_by", Text),
    Index(
        "approval_effects_open",
        "approval_id",
        postgresql_where=text("(stage IN ('waiting', 'applying', 'reverting'))"),
    ),
)

Table(
    "approval_nonces",
    METADATA,
    Column("nonce_sha256", LargeBinary, primary_key=True),
    Column(
        "approval_id",
        Text,
        ForeignKey(f"{SCHEMA}.pending_approvals.approval_id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("dm", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("used_at", TIME),
    Column("callback_id", Text),
    Index("approval_nonces_by_approval", "approval_id"),
)
