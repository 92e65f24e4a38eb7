"""Tables of paired users; see `tables`."""

from sqlalchemy import Boolean, Column, Table, Text, UniqueConstraint, text

from choir_control.migrations.metadata import METADATA, TIME

Table(
    "pairing_requests",
    METADATA,
    Column("gateway", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("dm", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("denied", Boolean, nullable=False, server_default=text("false")),
    Column("expires_at", TIME, nullable=False),
)

Table(
    "paired_users",
    METADATA,
    Column("dm", Text, primary_key=True),
    Column("gateway", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("channel_type", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("approved_by", Text, nullable=False),
    Column("approved_at", TIME, nullable=False),
    UniqueConstraint("gateway", "user_id"),
)
