"""Tables of the web page; see `tables`."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from choir_control.migrations.metadata import METADATA, SCHEMA, TIME

Table(
    "web_links",
    METADATA,
    Column("digest", LargeBinary, primary_key=True),
    Column("person", Text),
    Column("expires_at", TIME, nullable=False),
)

Table(
    "web_sessions",
    METADATA,
    Column("web_session_id", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("person", Text),
    Column("user_agent", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("last_used_at", TIME, nullable=False),
    Column("expires_at", TIME, nullable=False),
    UniqueConstraint("digest"),
)

Table(
    "web_push_subscriptions",
    METADATA,
    Column(
        "web_session_id",
        Text,
        ForeignKey(f"{SCHEMA}.web_sessions.web_session_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("endpoint", Text, nullable=False),
    Column("p256dh", LargeBinary, nullable=False),
    Column("auth", LargeBinary, nullable=False),
    UniqueConstraint("endpoint"),
)

Table(
    "web_push_key",
    METADATA,
    Column("only_row", Boolean, CheckConstraint("only_row"), primary_key=True),
    Column("private_key", LargeBinary, nullable=False),
)
