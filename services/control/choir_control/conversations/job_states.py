"""Reads of what became of core jobs that were started directly (`job_requests`)."""

from dataclasses import dataclass
from typing import Literal

import orjson

from choir_common.postgres.pool import Database
from choir_common.wire.model import JsonObject
from choir_control.conversations.message_outcome import (
    DETAIL_CASES,
    OUTCOME_CASES,
    OUTCOME_JOINS,
    UNANSWERED,
)

JOB_ID_PREFIX = "job_"
_READ = f"""
SELECT CASE {OUTCOME_CASES} END AS outcome, CASE {DETAIL_CASES} ELSE '{UNANSWERED}' END AS detail, job.result
FROM choir_control.inbox AS asked
{OUTCOME_JOINS}
WHERE asked.inbox_id = $1 AND asked.dm = $2
"""  # noqa: S608 our own SQL


@dataclass(frozen=True, slots=True)
class CoreJobState:
    """The state of a job."""

    state: Literal["working", "done", "failed"]
    result: JsonObject | None = None
    """Of a job that is done; `text` is the whole of it unless a schema was asked for."""
    reason: str = ""
    """Why it failed."""

    @property
    def answer(self) -> str:
        """The result as text."""
        if self.result is None:
            return ""
        text = self.result.get("text")
        if isinstance(text, str) and len(self.result) == 1:
            return text
        return orjson.dumps(self.result).decode()


class JobStateReader:
    """Reads states of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, job_id: str, dm: str) -> CoreJobState | None:
        """Return the state of a job of a conversation; None if there is none."""
        if not job_id.startswith(JOB_ID_PREFIX):
            return None
        row = await self._database.fetchrow(_READ, job_id.removeprefix(JOB_ID_PREFIX), dm)
        if row is None:
            return None
        if row["outcome"] is None:
            return CoreJobState("working")
        if row["outcome"] == "failed":
            return CoreJobState("failed", reason=row["detail"])
        result = orjson.loads(row["result"] or "{}")
        return CoreJobState("done", result=result if isinstance(result, dict) else {"text": ""})
