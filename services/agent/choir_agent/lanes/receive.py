"""Dispatcher of control's signals to lanes, jobs and the shutdown.

Called by `app` with the signals from `control/follow`. A signal that the log already contains is skipped:
it was sent again because of a crash.
"""

from collections.abc import Callable
from typing import assert_never

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.lanes.decisions import Decisions
from choir_agent.lanes.edge import EdgeLane
from choir_agent.lanes.jobs import CoreJobs
from choir_agent.log.state import EDGE
from choir_common.wire.events import CompactionRequested
from choir_common.wire.signals import (
    ApprovalResolvedSignal,
    CancelSignal,
    CompactSignal,
    ConfigChangedSignal,
    InjectSignal,
    ShutdownSignal,
    Signal,
    UserMessageSignal,
)


class Receiver:
    """Dispatcher that passes each signal to its handler."""

    def __init__(
        self,
        arbiter: Arbiter,
        edge: EdgeLane,
        jobs: CoreJobs,
        decisions: Decisions,
        renew_settings: Callable[[], None],
        stop: Callable[[str], None],
    ) -> None:
        self._arbiter = arbiter
        self._edge = edge
        self._jobs = jobs
        self._decisions = decisions
        self._renew_settings = renew_settings
        self._stop = stop

    async def receive(self, signal: Signal) -> None:
        """Handle a signal; blocks only while the message queue is full."""
        if self._arbiter.state.stopped:
            return  # no event may follow the session's end; control keeps the signal
        match signal.body:
            case UserMessageSignal():
                await self._edge.take(signal.body)
            case InjectSignal() | CancelSignal() | CompactSignal():
                if signal.seq > self._arbiter.state.last_signal:
                    self._obey(signal.body, signal.seq)
            case ApprovalResolvedSignal():
                self._decisions.take_up(signal.body)
                self._edge.decided()
            case ConfigChangedSignal():
                self._renew_settings()
            case ShutdownSignal():
                self._stop(signal.body.reason)
            case _:
                assert_never(signal.body)

    def _obey(self, body: InjectSignal | CancelSignal | CompactSignal, seq: int) -> None:
        match body:
            case InjectSignal():
                self._edge.inject(body, seq)
            case CancelSignal(job=None):
                self._edge.cancel_turn(seq)
            case CancelSignal(job=str(name)):
                self._jobs.cancel(name, seq)
            case CompactSignal():
                request = CompactionRequested(target=body.lane or EDGE, signal=seq)
                self._arbiter.commit(EDGE, request)
