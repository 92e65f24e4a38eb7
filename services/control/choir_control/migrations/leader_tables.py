"""Tables of the leader, and of the gateway that works; see `tables`."""

from sqlalchemy import BigInteger, Boolean, Column, Table, Text, text

from choir_control.migrations.metadata import METADATA

Table(
    "leader_term",
    METADATA,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("term", BigInteger, nullable=False),
)

Table(
    "gateway_lease",
    METADATA,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("instance", Text, nullable=False),
    Column("address", Text, nullable=False),
)
