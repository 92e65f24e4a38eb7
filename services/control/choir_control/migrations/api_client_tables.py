"""Table of the clients of the OpenAI-compatible API; see `tables`."""

from sqlalchemy import ARRAY, Column, LargeBinary, Table, Text

from choir_control.migrations.metadata import METADATA, TIME

Table(
    "api_clients",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("person", Text),
    Column("agents", ARRAY(Text), nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("last_used_at", TIME),
    Column("revoked_at", TIME),
)
