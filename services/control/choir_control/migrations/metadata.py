"""Metadata of control's tables, and the types and defaults that their columns share."""

from sqlalchemy import DateTime, MetaData, Numeric, text

SCHEMA = "choir_control"
METADATA = MetaData(
    schema=SCHEMA,
    # the names that Postgres gives by itself
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
    },
)
TIME = DateTime(timezone=True)
NOW = text("now()")
CLOCK = text("clock_timestamp()")
DOLLARS = Numeric(24, 12)
ZERO = text("0")
