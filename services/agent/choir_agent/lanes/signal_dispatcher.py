"""Dispatcher of control's signals to lanes, jobs and the shutdown, and the handler for humans' decisions.

A signal that the log already contains is skipped: it was sent again because of a crash. A decision may arrive
before the tool result that contains its proposal; it is buffered.
"""

import asyncio
from typing import assert_never

from choir_agent.arbiter.approval_client import ApprovalClient
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.control_client.dynamic_settings import DynamicSettings
from choir_agent.control_client.signal_stream import SignalStream
from choir_agent.lanes.conversation_lanes import ConversationLanes
from choir_agent.lanes.core_job_manager import CoreJobManager
from choir_agent.lanes.session_shutdown import SessionShutdown
from choir_agent.log.committed_event import CommittedEvent
from choir_common.wire.events import ApprovalDecided, CompactionRequested, ToolResultCommitted
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

MAX_BUFFERED_DECISIONS = 100


class DecisionHandler:
    """Handler for decisions: wakes a waiting call, or records the decision on a proposal as an event."""

    def __init__(self, arbiter: Arbiter, approvals: ApprovalClient) -> None:
        self._arbiter = arbiter
        self._approvals = approvals
        self._early: dict[str, ApprovalResolvedSignal] = {}

    def handle(self, decision: ApprovalResolvedSignal) -> None:
        """Apply a decision; repeated signals have no effect."""
        if self._approvals.resolve(decision.approval_id) or self._record(decision):
            return
        # No call or proposal matches yet. If its call ended in the meantime, none ever will: hence the
        # limit.
        self._early[decision.approval_id] = decision
        if len(self._early) > MAX_BUFFERED_DECISIONS:
            self._early.pop(next(iter(self._early)))

    def on_event(self, event: CommittedEvent) -> None:
        """Apply a buffered decision if this event is the result that it belongs to."""
        if not self._early or not isinstance(event.payload, ToolResultCommitted):
            return
        early = self._early.pop(str(event.payload.output.get("approval_id")), None)
        if early is not None:
            # Defer: all listeners must receive this event before another one is committed.
            asyncio.get_running_loop().call_soon(self._record, early)

    def _record(self, decision: ApprovalResolvedSignal) -> bool:
        proposals = self._arbiter.state.proposals
        proposal = next((p for p in proposals if p.approval_id == decision.approval_id), None)
        if proposal is None:
            return False
        event = ApprovalDecided(
            approval_id=proposal.approval_id,
            status=decision.status,
            what=proposal.what,
            dm=proposal.dm,
        )
        self._arbiter.commit(proposal.lane, event)
        return True


class SignalDispatcher:
    """Dispatcher that passes each signal to its handler."""

    def __init__(
        self,
        *,
        arbiter: Arbiter,
        lanes: ConversationLanes,
        jobs: CoreJobManager,
        decisions: DecisionHandler,
        settings: DynamicSettings,
        shutdown: SessionShutdown,
        stream: SignalStream,
    ) -> None:
        self._arbiter = arbiter
        self._lanes = lanes
        self._jobs = jobs
        self._decisions = decisions
        self._settings = settings
        self._shutdown = shutdown
        self._stream = stream

    def receive(self, signal: Signal) -> None:
        """Handle a signal."""
        if self._arbiter.state.stopped:
            return  # no event may follow the session's end; control keeps the signal
        match signal.body:
            case UserMessageSignal():
                self._queue(signal.body, signal.seq)
            case InjectSignal() | CancelSignal() | CompactSignal():
                if signal.seq > self._arbiter.state.last_signal:
                    self._apply(signal.body, signal.seq)
            case ApprovalResolvedSignal():
                self._decisions.handle(signal.body)
                self._lanes.recheck_parked_turns()
            case ConfigChangedSignal():
                self._settings.mark_stale()
            case ShutdownSignal():
                self._shutdown.request_stop(signal.body.reason)
            case _:
                assert_never(signal.body)

    def _queue(self, message: UserMessageSignal, seq: int) -> None:
        """Queue a message for its conversation, or leave it in control while the queue is full."""
        lane = self._lanes.name_of(message.dm)
        if self._stream.has_left(lane) or not self._lanes.of(lane).queue_message(message):
            self._stream.leave(lane, seq)

    def _apply(self, body: InjectSignal | CancelSignal | CompactSignal, seq: int) -> None:
        edge = self._lanes.name_of(body.dm)
        match body:
            case InjectSignal():
                self._lanes.of(edge).inject(body, seq)
            case CancelSignal(job=None):
                self._lanes.of(edge).cancel_turn(seq)
            case CancelSignal(job=str(name)):
                # The operator names no conversation, and may cancel every job.
                self._jobs.cancel(name, seq, edge=edge if body.dm else None)
            case CompactSignal():
                target = body.lane or edge
                request = CompactionRequested(target=target, signal=seq)
                self._arbiter.commit(self._arbiter.state.edge_of(target), request)
