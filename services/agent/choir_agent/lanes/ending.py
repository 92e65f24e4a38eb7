"""End a session in good order: the open turn, the summary, the last events (spec 11.8, 17.2).

Called by `app`, which then says goodbye to control. Every step has its time. A turn that takes longer
and core jobs are left open: the session is suspended, and its next epoch goes on with them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.compaction.session_summary import SessionSummary
from choir_agent.lanes.edge import EdgeLane
from choir_agent.lanes.jobs import SESSION_LANE
from choir_agent.replication.replicate import Replication
from choir_common.wire.events import SessionStopped, SessionSuspended

log = structlog.get_logger("choir.agent.ending")


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Why the agent is to stop, and how long its turn may go on."""

    reason: str
    grace_s: float
    summary: bool = True
    """Whether there is time to sum up the session."""


Summarise = Callable[[], Awaitable[SessionSummary | None]]


class Ending:
    """Waits for the stop and carries it out."""

    def __init__(
        self,
        arbiter: Arbiter,
        replication: Replication,
        edge: EdgeLane,
        summarise: Summarise,
        flush_grace_s: float,
    ) -> None:
        self._arbiter = arbiter
        self._replication = replication
        self._edge = edge
        self._summarise = summarise
        self._flush_grace_s = flush_grace_s
        self._stops: asyncio.Queue[StopRequest] = asyncio.Queue(maxsize=100)

    def ask(self, request: StopRequest) -> None:
        """Ask for a stop; a further request may hurry one that is under way."""
        if not self._stops.full():
            self._stops.put_nowait(request)

    async def end(self, lane: asyncio.Task[None]) -> tuple[str, bool]:
        """Wait for a stop and end the session; returns the reason, and whether all became durable."""
        request = await self._stops.get()
        log.info("stopping", reason=request.reason)
        self._edge.stop()
        last = await self._end_lane(lane, request)
        if self._arbiter.state.has_open_work:
            log.info("stopped with open work; the next start goes on with it")
            return request.reason, await self._flush(SessionSuspended(reason=request.reason))
        summary = await self._sum_up(last)
        stopped = SessionStopped(reason=request.reason)
        if summary is not None:
            stopped = SessionStopped(
                reason=request.reason, summary=summary.text, topics=summary.topics
            )
        return request.reason, await self._flush(stopped)

    async def _end_lane(self, lane: asyncio.Task[None], request: StopRequest) -> StopRequest:
        """Wait for the end of the lane's turn, no longer than the newest request's grace."""
        while not lane.done():
            another = asyncio.create_task(self._stops.get())
            await asyncio.wait(
                {lane, another}, timeout=request.grace_s, return_when=asyncio.FIRST_COMPLETED
            )
            if another.done():
                request = another.result()
                continue
            another.cancel()
            if not lane.done():
                self._edge.leave_open()
                await asyncio.wait({lane})
        return request

    async def _sum_up(self, request: StopRequest) -> SessionSummary | None:
        if not request.summary:
            return None
        summing = asyncio.ensure_future(self._summarise())
        hurry = asyncio.create_task(self._stops.get())
        try:
            await asyncio.wait({summing, hurry}, return_when=asyncio.FIRST_COMPLETED)
            return summing.result() if summing.done() else None
        except Exception:
            # the outermost frame of the summary: for want of one no stop may fail
            log.exception("the summary of the session broke")
            return None
        finally:
            for task in (summing, hurry):
                task.cancel()

    async def _flush(self, end: SessionStopped | SessionSuspended) -> bool:
        """Write the last event and make all durable; returns whether that worked in time."""
        last = self._arbiter.commit(SESSION_LANE, end)
        try:
            async with asyncio.timeout(self._flush_grace_s):
                await self._replication.durable(last)
        except TimeoutError:
            log.error("could not flush the log in time", last_rev=last)
            return False
        return True
