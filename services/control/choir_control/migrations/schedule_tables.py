"""Tables of schedules and their runs; see `tables`."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import INTERVAL

from choir_control.migrations.metadata import METADATA, SCHEMA, TIME, ZERO

EMPTY = text("''::text")

Table(
    "schedules",
    METADATA,
    Column("schedule_id", BigInteger, Identity(always=True), primary_key=True),
    Column("revision", BigInteger, nullable=False, server_default=ZERO),
    Column("agent_id", Text, nullable=False),
    Column("dm", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("timing", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("zone", Text, nullable=False),
    Column("anchor", TIME, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'active'::text")),
    Column("note", Text, nullable=False, server_default=EMPTY),
    Column("catch_up", Text, nullable=False),
    Column("grace", INTERVAL, nullable=False),
    Column("overlap", Text, nullable=False),
    Column("jitter", INTERVAL, nullable=False),
    Column("max_failures", Integer, nullable=False),
    Column("failures", Integer, nullable=False, server_default=ZERO),
    Column("failed_at", TIME),
    Column("next_due", TIME),
    Column("start_at", TIME),
    Column("planned_at", TIME, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("words", Text, nullable=False, server_default=EMPTY),
    Column("request_key", Text, unique=True),
    Column("created_at", TIME, nullable=False),
    Column("text_by", Text, nullable=False, server_default=EMPTY),
    Column("skill", Text, nullable=False, server_default=EMPTY),
    Index("schedules_active", "start_at", postgresql_where=text("state = 'active'")),
    Index("schedules_by_agent", "agent_id", "schedule_id"),
)

Table(
    "schedule_runs",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column(
        "schedule_id",
        BigInteger,
        ForeignKey(f"{SCHEMA}.schedules.schedule_id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("due_at", TIME, nullable=False),
    Column("state", Text, nullable=False),
    Column("detail", Text, nullable=False, server_default=EMPTY),
    Column("manual", Boolean, nullable=False, server_default=text("false")),
    Column("outbox_id", BigInteger),
    Column("created_at", TIME, nullable=False),
    Column("started_at", TIME),
    Column("ended_at", TIME),
    Index(
        "schedule_runs_open",
        "schedule_id",
        postgresql_where=text("(state IN ('due', 'running'))"),
    ),
    Index("schedule_runs_ended", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    UniqueConstraint("schedule_id", "due_at"),
)
