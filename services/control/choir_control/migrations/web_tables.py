"""Tables of the web page; see `tables`."""

from sqlalchemy import Column, LargeBinary, Table, Text, UniqueConstraint

from choir_control.migrations.metadata import METADATA, TIME

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
