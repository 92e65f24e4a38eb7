"""Table of the questions of agents to other agents; see `tables`."""

from sqlalchemy import ARRAY, Boolean, Column, Index, Table, Text, UniqueConstraint, text

from choir_control.migrations.metadata import METADATA, TIME

Table(
    "agent_questions",
    METADATA,
    Column("question_id", Text, primary_key=True),
    Column("asking_agent", Text, nullable=False),
    Column("asking_session", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("answering_agent", Text, nullable=False),
    Column("dm", Text, nullable=False),
    Column("gateway", Text, nullable=False),
    Column("askers", ARRAY(Text), nullable=False),
    Column("first_question", Text, nullable=False),
    Column("asked_at", TIME, nullable=False),
    Column("deadline_at", TIME, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'open'::text")),
    Column("ended_at", TIME),
    Column("turn_ended", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("asking_session", "call_id"),
    Index("agent_questions_by_agent", "asking_agent", "asked_at"),
    Index("agent_questions_by_dm", "dm", "asked_at"),
    Index("agent_questions_unsettled", "deadline_at", postgresql_where=text("(NOT turn_ended)")),
    Index("agent_questions_ended", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
)
