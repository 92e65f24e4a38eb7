"""Core jobs: list, start, wait, instruct, cancel."""

import time
from contextlib import aclosing

from choir_client import operations
from choir_client._async.agents import AsyncAgents
from choir_client._async.connection import SILENCE_S, AsyncConnection
from choir_client._async.sessions import AsyncSessions
from choir_client.job_events import Job, job_result, list_jobs
from choir_common.errors import DeadlineExceeded, NotFound, Unavailable
from choir_common.i18n import _
from choir_common.wire.core_jobs import JobOptions, NewJob
from choir_common.wire.events import CoreStopped
from choir_common.wire.operator import CancelWork, InjectText, SignalQueued

JobList = list[Job]


class AsyncJobs:
    """The core jobs of a Choir's agents."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._agents = AsyncAgents(connection)
        self._sessions = AsyncSessions(connection)

    async def list(self, agent_id: str) -> JobList:
        """Return the open core jobs of an agent, as of its latest heartbeat. Raises NotFound."""
        agent = await self._agents.get(agent_id)
        if agent.session_id is None:
            return []
        # the log is read first: a job that is listed after that has not ended before its head
        session = await self._sessions.get(agent.session_id)
        agent = await self._agents.get(agent_id)
        return list_jobs(agent, session.head_rev) if agent.session_id == session.session_id else []

    async def get(self, agent_id: str, name: str) -> Job:
        """Return an open core job by its name. Raises NotFound."""
        for job in await self.list(agent_id):
            if job.name == name:
                return job
        raise NotFound(
            _("Agent {agent_id} has no open core job {name!r}.").format(
                agent_id=agent_id, name=name
            )
        )

    async def start(
        self,
        agent_id: str,
        task: str,
        *,
        dm: str | None = None,
        options: JobOptions | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Start a core job with these words as its task; the agent's model is not asked.

        `dm` is the conversation to which it reports; default: the home conversation. A repetition with the
        same `idempotency_key` starts no second job. Raises NotFound, and Conflict if the agent does not run.
        """
        choices = {} if options is None else options.choices()
        body = NewJob(**choices, task=task, dm=dm, idempotency_key=idempotency_key)
        start = await self._connection.call(operations.START_JOB, {"agent_id": agent_id}, body=body)
        return Job(
            agent_id=agent_id,
            session_id=start.session_id,
            name=start.name,
            seen_rev=start.seen_rev,
            job_id=start.job_id,
        )

    async def wait(self, job: Job, timeout_s: float = 3600.0) -> CoreStopped:
        """Wait for the end of a job and return its outcome, with the result if it has completed.

        Raises DeadlineExceeded up to 15 s after `timeout_s`, Unavailable if the agent stops before: the job
        goes on when the agent starts again.
        """
        deadline = time.monotonic() + timeout_s
        events = self._sessions.follow_with_ticks(
            job.session_id, job.seen_rev, silence_s=min(max(timeout_s, 1.0), SILENCE_S)
        )
        async with aclosing(events):
            async for event in events:
                result = None if event is None else job_result(event, job)
                if result is not None:
                    return result
                if time.monotonic() > deadline:
                    raise DeadlineExceeded(
                        _(
                            "The core job {name} of {agent_id} has not ended within {timeout_s:g} s. It goes "
                            "on; wait again, or cancel it."
                        ).format(name=job.name, agent_id=job.agent_id, timeout_s=timeout_s)
                    )
        raise Unavailable(
            _(
                "The session {session_id} of {agent_id} ended before its core job {name}, which "
                "goes on when the agent starts again."
            ).format(session_id=job.session_id, agent_id=job.agent_id, name=job.name)
        )

    async def inject(self, agent_id: str, text: str, dm: str | None = None) -> SignalQueued:
        """Give an agent further instructions for its next safe point. Raises Conflict if it does not run."""
        body = InjectText(text=text, dm=dm)
        return await self._connection.call(operations.INJECT, {"agent_id": agent_id}, body=body)

    async def cancel(self, agent_id: str, job: str | None, dm: str | None = None) -> SignalQueued:
        """Cancel a core job, or the turn if `job` is None. Raises Conflict if the agent does not run."""
        body = CancelWork(job=job, dm=dm)
        return await self._connection.call(operations.CANCEL, {"agent_id": agent_id}, body=body)
