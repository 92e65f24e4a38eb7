"""Tables of triggers and their deliveries; see `tables`."""

from sqlalchemy import BigInteger, Column, Identity, Index, Table, Text, UniqueConstraint, text

from choir_control.migrations.metadata import METADATA, TIME

Table(
    "trigger_deliveries",
    METADATA,
    Column("delivery_id", Text, primary_key=True),
    Column("seq", BigInteger, Identity(always=True), nullable=False, unique=True),
    Column("type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("dm", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("content_key", Text),
    Column("size", BigInteger, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'waiting'::text")),
    Column("detail", Text, nullable=False, server_default=text("''::text")),
    Column("received_at", TIME, nullable=False),
    Column("started_at", TIME),
    Column("ended_at", TIME),
    Index(
        "trigger_deliveries_open",
        *("type", "name", "seq"),
        postgresql_where=text("(state IN ('waiting', 'running'))"),
    ),
    Index("trigger_deliveries_ended", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    UniqueConstraint("type", "name", "key"),
    UniqueConstraint("type", "name", "content_key"),
)

Table(
    "trigger_files",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("modified_ns", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
)
