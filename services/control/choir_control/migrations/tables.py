"""Control's tables as they are after all migrations, from which migrations are generated and checked.

A new column is one line here: `make migration TOPIC=name` writes the numbered SQL file, and a test compares
this module with a migrated database. CHECK constraints and triggers are in the SQL files only: Alembic cannot
compare them. Services do not import this module, because SQLAlchemy costs 37 MB and 0.3 s (decision 46).
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from choir_control.migrations import (
    api_client_tables,
    approval_tables,
    leader_tables,
    pairing_tables,
    question_tables,
    schedule_tables,
    trigger_tables,
    web_tables,
)
from choir_control.migrations.metadata import CLOCK, DOLLARS, METADATA, NOW, SCHEMA, TIME, ZERO

__all__ = (
    "METADATA",
    "SCHEMA",
    "api_client_tables",
    "approval_tables",
    "leader_tables",
    "pairing_tables",
    "question_tables",
    "schedule_tables",
    "trigger_tables",
    "web_tables",
)

Table(
    "channel_messages",
    METADATA,
    Column("dm", Text, primary_key=True),
    Column("card_id", Text, primary_key=True),
    Column("message_id", Text, nullable=False),
    Column("kept_at", TIME, nullable=False, server_default=NOW),
)

Table(
    "config_versions",
    METADATA,
    Column("version", Integer, Identity(always=True), primary_key=True),
    Column("digest", Text, nullable=False),
    Column("read_at", TIME, nullable=False, server_default=NOW),
    Column("body", JSON),
    Column("reason", Text, nullable=False, server_default=text("'start'::text")),
)

Table(
    "conversation_memory",
    METADATA,
    Column("dm", Text, primary_key=True),
    Column("mode", Text, nullable=False, server_default=text("'local'::text")),
    Column("recall", Boolean),
    Column("changed_at", TIME, nullable=False, server_default=CLOCK),
)

Table(
    "operations",
    METADATA,
    Column("operation_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'running'::text")),
    Column("step", Text, nullable=False, server_default=text("''::text")),
    Column("error", Text),
    Column("error_code", Text),
    Column("result", JSON),
    Column("began_at", TIME, nullable=False, server_default=CLOCK),
    Column("ended_at", TIME),
    Column("dm", Text),
    Column("gateway", Text),
    Column("has_card", Boolean, nullable=False, server_default=text("false")),
    Index("operations_by_age", text("began_at DESC"), text("operation_id DESC")),
)

Table(
    "sessions",
    METADATA,
    Column("session_id", Text, primary_key=True),
    Column("agent_id", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("token_sha256", LargeBinary),
    Column("head_rev", BigInteger, nullable=False, server_default=text("0")),
    Column("head_hash", Text, nullable=False),
    Column("continues", Text, ForeignKey(f"{SCHEMA}.sessions.session_id", ondelete="SET NULL")),
    Column("workspace", Text, nullable=False),
    Column("llm", Text, nullable=False),
    Column("dm", Text, nullable=False),
    Column("gateway", Text, nullable=False),
    Column("resumes", Integer, nullable=False, server_default=text("0")),
    Column("resume_at", TIME),
    Column("last_heartbeat_at", TIME, nullable=False, server_default=CLOCK),
    Column("epoch_started_at", TIME, nullable=False, server_default=CLOCK),
    Column("started_at", TIME, nullable=False, server_default=CLOCK),
    Column("ended_at", TIME),
    Column("end_reason", Text),
    Column("resource_bindings", JSONB),
    Column("overrides", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("settings_rev", Integer, nullable=False, server_default=text("0")),
    Column("idle_resumes", Integer, nullable=False, server_default=text("0")),
    Column("archived_rev", BigInteger, nullable=False, server_default=text("0")),
    Column("archived_at", TIME),
    Column("archive_due_at", TIME),
    Column("archive_tries", Integer, nullable=False, server_default=text("0")),
    Column("archive_error", Text),
    Column("rehearsal", Boolean, nullable=False, server_default=text("false")),
    Column("forgotten_at", TIME),
    Column("image", JSONB),
    Column("blocked", Text),
    Column("memory_mode", Text, nullable=False, server_default=text("'local'::text")),
    Index("sessions_by_agent", "agent_id", "started_at"),
    Index("sessions_by_continues", "continues", postgresql_where=text("continues IS NOT NULL")),
    Index(
        "sessions_live_dm",
        "dm",
        postgresql_where=text("(status IN ('starting', 'active', 'stopping', 'crashed'))"),
    ),
    Index(
        "sessions_one_live_per_agent",
        "agent_id",
        postgresql_where=text("(status IN ('starting', 'active', 'stopping', 'crashed'))"),
        unique=True,
    ),
    Index(
        "sessions_rehearsed",
        "agent_id",
        "started_at",
        postgresql_where=text("(rehearsal AND (forgotten_at IS NULL))"),
    ),
    Index(
        "sessions_to_archive",
        "agent_id",
        "started_at",
        postgresql_where=text("archived_at IS NULL"),
    ),
)

Table(
    "erased_logs",
    METADATA,
    Column(
        "session_id",
        Text,
        ForeignKey(f"{SCHEMA}.sessions.session_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("hashes", LargeBinary, nullable=False),
    Column("erased_at", TIME, nullable=False, server_default=CLOCK),
    Column("finished_at", TIME),
    Column("signatures", LargeBinary),
)

Table(
    "audit_anchors",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", TIME, nullable=False),
    Column("root", Text, nullable=False),
    Column("signature", LargeBinary, nullable=False),
)

Table(
    "audit_anchor_heads",
    METADATA,
    Column("number", BigInteger, ForeignKey(f"{SCHEMA}.audit_anchors.number"), primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("rev", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Index("audit_anchor_heads_by_session", "session_id", "rev"),
)

Table(
    "inbox",
    METADATA,
    Column("seq", BigInteger, Identity(always=True), nullable=False, unique=True),
    Column("inbox_id", Text, primary_key=True),
    Column("gateway", Text, nullable=False),
    Column("update_id", Text, nullable=False),
    Column("dm", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("sent_at", TIME, nullable=False),
    Column("received_at", TIME, nullable=False, server_default=NOW),
    Column("session_id", Text, ForeignKey(f"{SCHEMA}.sessions.session_id")),
    Column("consumed_rev", BigInteger),
    Column("answered_rev", BigInteger),
    Column("closed_at", TIME),
    Column("attachments", JSON),
    Column("fetched_at", TIME),
    Column("message_id", Text),
    Column("edits", Text),
    Column("reply_to", Text),
    Column("hosts", ARRAY(Text), nullable=False, server_default=text("'{}'::text[]")),
    Index(
        "inbox_by_message",
        "dm",
        "message_id",
        "seq",
        postgresql_where=text("message_id IS NOT NULL"),
    ),
    Index("inbox_by_dm", "dm", "received_at", "seq"),
    Index("inbox_by_session", "session_id", postgresql_where=text("session_id IS NOT NULL")),
    Index(
        "inbox_open_by_session",
        "session_id",
        postgresql_where=text("((answered_rev IS NULL) AND (closed_at IS NULL))"),
    ),
    Index("inbox_with_hosts", "dm", postgresql_where=text("(hosts <> '{}'::text[])")),
    Index(
        "inbox_waiting_by_dm",
        "dm",
        "seq",
        postgresql_where=text("((session_id IS NULL) AND (closed_at IS NULL))"),
    ),
    UniqueConstraint("gateway", "update_id"),
)

Table(
    "leases",
    METADATA,
    Column("resource", Text, primary_key=True),
    Column("session_id", Text, ForeignKey(f"{SCHEMA}.sessions.session_id")),
    Column("agent_id", Text, nullable=False),
    Column("acquired_at", TIME, nullable=False, server_default=NOW),
    Index("leases_by_session", "session_id"),
)

Table(
    "outbox",
    METADATA,
    Column("outbox_id", BigInteger, Identity(always=True), primary_key=True),
    Column("dm", Text, nullable=False),
    Column("gateway", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("session_id", Text, ForeignKey(f"{SCHEMA}.sessions.session_id")),
    Column("rev", BigInteger),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("answers", Text),
    Column("at", TIME, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'waiting'::text")),
    Column("maybe_repeated", Boolean, nullable=False, server_default=text("false")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("detail", Text, nullable=False, server_default=text("''::text")),
    Column("finished_at", TIME),
    Column("files", JSON),
    Column("buttons", JSON),
    Column("edits", BigInteger, ForeignKey(f"{SCHEMA}.outbox.outbox_id")),
    Column("message_id", Text),
    Column("parcels", Integer, nullable=False, server_default=text("0")),
    Column("copied_from", Text),
    Index("outbox_by_dm", "dm", "outbox_id"),
    Index("outbox_by_edits", "edits", postgresql_where=text("edits IS NOT NULL")),
    Index("outbox_by_time", "dm", "at", "outbox_id"),
    Index("outbox_by_message", "dm", "message_id", postgresql_where=text("message_id IS NOT NULL")),
    Index(
        "outbox_open",
        "dm",
        "outbox_id",
        postgresql_where=text("(status IN ('waiting', 'sending'))"),
    ),
    Index("outbox_with_files", "outbox_id", postgresql_where=text("files IS NOT NULL")),
    Index("outbox_copies", "copied_from", postgresql_where=text("copied_from IS NOT NULL")),
    UniqueConstraint("session_id", "rev", "dm"),
)

Table(
    "session_epochs",
    METADATA,
    Column(
        "session_id",
        Text,
        ForeignKey(f"{SCHEMA}.sessions.session_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("epoch", Integer, primary_key=True),
    Column("token_sha256", LargeBinary, nullable=False),
    Column("started_at", TIME, nullable=False, server_default=CLOCK),
)

Table(
    "session_conversations",
    METADATA,
    Column(
        "session_id",
        Text,
        ForeignKey(f"{SCHEMA}.sessions.session_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("dm", Text, primary_key=True),
    Column("gateway", Text, nullable=False),
    Column("bound_at", TIME, nullable=False, server_default=CLOCK),
    Column("unbound_at", TIME),
    Index("session_conversations_by_dm", "dm"),
)

Table(
    "person_identities",
    METADATA,
    Column("gateway", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Column("linked_by", Text, nullable=False),
    Column("linked_at", TIME, nullable=False, server_default=CLOCK),
)

Table(
    "user_languages",
    METADATA,
    Column("owner", Text, primary_key=True),
    Column("app", Text, nullable=False, server_default=text("''")),
    Column("chosen", Text, nullable=False, server_default=text("''")),
)

Table(
    "conversation_followers",
    METADATA,
    Column("dm", Text, primary_key=True),
    Column("since", TIME, nullable=False, server_default=CLOCK),
)

Table(
    "session_resets",
    METADATA,
    Column(
        "session_id",
        Text,
        ForeignKey(f"{SCHEMA}.sessions.session_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("carries", Text, nullable=False),
    Column("since", TIME),
    Column("until", TIME),
    Column("requested_at", TIME, nullable=False, server_default=CLOCK),
    Column("finished_at", TIME),
    Index("session_resets_waiting", "session_id", postgresql_where=text("finished_at IS NULL")),
)

Table(
    "session_events",
    METADATA,
    Column("session_id", Text, ForeignKey(f"{SCHEMA}.sessions.session_id"), primary_key=True),
    Column("rev", BigInteger, primary_key=True),
    Column("lane", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", JSON, nullable=False),
    Column("at", Text, nullable=False),
    Column("hash_prev", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("stored_at", TIME, nullable=False, server_default=NOW),
    Column("signature", LargeBinary),
    Index(
        "session_events_jobs",
        "session_id",
        "rev",
        postgresql_where=text("(type IN ('core_started', 'core_stopped'))"),
    ),
    Index(
        "session_events_landmarks",
        "session_id",
        "type",
        "rev",
        postgresql_where=text("(type IN ('snapshot', 'memory_compacted', 'session_stopped'))"),
    ),
)

Table(
    "received_files",
    METADATA,
    Column("inbox_id", Text, ForeignKey(f"{SCHEMA}.inbox.inbox_id"), primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("path", Text, primary_key=True),
)

Table(
    "signals",
    METADATA,
    Column("seq", BigInteger, Identity(always=True), primary_key=True),
    Column("dm", Text),
    Column("session_id", Text, ForeignKey(f"{SCHEMA}.sessions.session_id")),
    Column("body", JSON, nullable=False),
    Column("inbox_id", Text, ForeignKey(f"{SCHEMA}.inbox.inbox_id"), unique=True),
    Column("created_at", TIME, nullable=False, server_default=NOW),
    Column("done_at", TIME),
    Column("delayed", Boolean, nullable=False, server_default=text("false")),
    Index("signals_open_by_dm", "dm", "seq", postgresql_where=text("done_at IS NULL")),
    Index("signals_open_by_session", "session_id", "seq", postgresql_where=text("done_at IS NULL")),
)

Table(
    "ledger",
    METADATA,
    Column("entry_id", Text, primary_key=True),
    Column("agent_id", Text),
    Column("session_id", Text),
    Column("lane", Text),
    Column("job_id", Text),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("at", TIME, nullable=False),
    Column("day", Date, nullable=False),
    Column("calls", Integer, nullable=False, server_default=text("1")),
    Column("prompt_tokens", BigInteger, nullable=False, server_default=ZERO),
    Column("cached_tokens", BigInteger, nullable=False, server_default=ZERO),
    Column("cache_write_tokens", BigInteger, nullable=False, server_default=ZERO),
    Column("completion_tokens", BigInteger, nullable=False, server_default=ZERO),
    Column("reasoning_tokens", BigInteger, nullable=False, server_default=ZERO),
    Column("audio_tokens", BigInteger, nullable=False, server_default=ZERO),
    Column("image_tokens", BigInteger, nullable=False, server_default=ZERO),
    Column("audio_seconds", Numeric),
    Column("characters", BigInteger),
    Column("cost_usd", DOLLARS),
    Column("computed_usd", DOLLARS),
    Column("billed_usd", DOLLARS),
    Column("source", Text, nullable=False),
    Index("ledger_by_agent", "agent_id", "at"),
    Index("ledger_by_time", "at"),
    Index("ledger_by_session", "session_id", postgresql_where=text("session_id IS NOT NULL")),
)

Table(
    "budget_reservations",
    METADATA,
    Column("reservation", Text, primary_key=True),
    Column("session_id", Text),
    Column("epoch", Integer),
    Column("agent_id", Text),
    Column("job_id", Text),
    Column("name", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("day", Date, nullable=False),
    Column("amount_usd", DOLLARS, nullable=False),
    Column("at", TIME, nullable=False, server_default=CLOCK),
    Column("expires_at", TIME, nullable=False),
    Column("kind", Text, nullable=False, server_default=text("'chat'")),
)

Table(
    "budget_notices",
    METADATA,
    Column("agent_id", Text, primary_key=True),
    Column("budget", Text, primary_key=True),
    Column("period", Text, nullable=False),
    Column("at", TIME, nullable=False, server_default=CLOCK),
)

Table(
    "budget_grants",
    METADATA,
    Column("session_id", Text, primary_key=True),
    Column("rev", BigInteger, primary_key=True),
    Column("agent_id", Text, nullable=False),
    Column("budget", Text, nullable=False),
    Column("amount_usd", DOLLARS, nullable=False),
    Column("at", TIME, nullable=False),
    Index("budget_grants_by_time", "budget", "at"),
)
