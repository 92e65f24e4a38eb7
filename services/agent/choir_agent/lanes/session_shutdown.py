"""Orderly shutdown of a session: the open turns, the summaries, the last events.

Every step has a time limit. A turn that exceeds it, and core jobs, are left open: the session is suspended
and its next epoch resumes them.
"""

import asyncio
from dataclasses import dataclass

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.compaction.session_summary import SessionSummaries, SessionSummarizer
from choir_agent.lanes.conversation_lanes import ConversationLanes
from choir_agent.lanes.core_job_manager import SESSION_LANE
from choir_agent.log.log_replicator import LogReplicator
from choir_agent.settings import AgentProcessSettings
from choir_common.wire.events import ConversationSummary, SessionStopped, SessionSuspended

log = structlog.get_logger("choir.agent.ending")


@dataclass(frozen=True, slots=True)
class StopRequest:
    """The reason for a stop, and how long open turns may continue."""

    reason: str
    grace_s: float
    with_summary: bool = True
    """Whether there is time for a session summary."""


class SessionShutdown:
    """Shutdown sequence of a session, started by a stop request."""

    def __init__(
        self,
        *,
        arbiter: Arbiter,
        replication: LogReplicator,
        lanes: ConversationLanes,
        summarizer: SessionSummarizer,
        settings: AgentProcessSettings,
    ) -> None:
        self._arbiter = arbiter
        self._replication = replication
        self._lanes = lanes
        self._summarizer = summarizer
        self._settings = settings
        self._stops: asyncio.Queue[StopRequest] = asyncio.Queue(maxsize=100)

    def request_stop(self, reason: str) -> None:
        """Request a stop for a reason that leaves time for a summary."""
        self._request(StopRequest(reason, self._settings.stop_grace_s))

    def request_stop_by_sigterm(self) -> None:
        """Request a stop without a summary: the runtime kills the process soon after SIGTERM."""
        self._request(StopRequest("SIGTERM", self._settings.sigterm_grace_s, with_summary=False))

    async def end(self, lanes: asyncio.Task[None]) -> tuple[str, bool]:
        """Wait for a stop request and end the session; return its reason and whether the log was
        flushed."""
        request = await self._stops.get()
        log.info("stopping", reason=request.reason)
        self._lanes.stop()
        last = await self._end_lanes(lanes, request)
        if self._arbiter.state.has_open_work:
            log.info("session suspended with open work; the next start resumes it")
            return request.reason, await self._flush(SessionSuspended(reason=request.reason))
        summaries = await self._summarize(last)
        return request.reason, await self._flush(_stopped(request.reason, summaries))

    def _request(self, request: StopRequest) -> None:
        # A later request may shorten a shutdown in progress.
        if not self._stops.full():
            self._stops.put_nowait(request)

    async def _end_lanes(self, lanes: asyncio.Task[None], request: StopRequest) -> StopRequest:
        """Wait for the end of the open turns, at most for the grace period of the newest request."""
        while not lanes.done():
            another = asyncio.create_task(self._stops.get())
            await asyncio.wait(
                {lanes, another}, timeout=request.grace_s, return_when=asyncio.FIRST_COMPLETED
            )
            if another.done():
                # The newer request sets the remaining time, for example SIGTERM after a shutdown
                # signal.
                request = another.result()
                continue
            another.cancel()
            if not lanes.done():
                self._lanes.suspend()
                await asyncio.wait({lanes})
        return request

    async def _summarize(self, request: StopRequest) -> SessionSummaries:
        if not request.with_summary:
            return SessionSummaries()
        summing = asyncio.ensure_future(self._summarizer.summarize(self._arbiter.state))
        # Any further stop request means that there is no time for the summary.
        next_stop = asyncio.create_task(self._stops.get())
        try:
            await asyncio.wait({summing, next_stop}, return_when=asyncio.FIRST_COMPLETED)
            return summing.result() if summing.done() else SessionSummaries()
        except Exception:
            # Outermost frame of the summary: a failure here must not fail the shutdown.
            log.exception("session summary failed with an internal error")
            return SessionSummaries()
        finally:
            for task in (summing, next_stop):
                task.cancel()

    async def _flush(self, end: SessionStopped | SessionSuspended) -> bool:
        """Commit the last event and wait until it is durable; return whether that succeeded in time."""
        last = self._arbiter.commit(SESSION_LANE, end)
        try:
            async with asyncio.timeout(self._settings.flush_grace_s):
                await self._replication.durable(last)
        except TimeoutError:
            log.error("could not flush the log in time", last_rev=last)
            return False
        return True


def _stopped(reason: str, summaries: SessionSummaries) -> SessionStopped:
    home = summaries.home
    return SessionStopped(
        reason=reason,
        summary=home.text if home else None,
        topics=home.topics if home else (),
        conversations=tuple(
            ConversationSummary(lane=lane, summary=it.text, topics=it.topics)
            for lane, it in summaries.further.items()
        ),
    )
