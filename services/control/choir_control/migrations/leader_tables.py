"""Table of the leader; see `tables`."""

from sqlalchemy import BigInteger, Boolean, Column, Table, text

from choir_control.migrations.metadata import METADATA

Table(
    "leader_term",
    METADATA,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("term", BigInteger, nullable=False),
)
