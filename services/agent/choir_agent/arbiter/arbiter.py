"""The arbiter: appends events, and takes tool calls through check, rule, lock, commit, execute and result.

Called by the lanes, which change nothing without it. Tools run in `execute`; `replication` makes the log
durable. See docs/design/arbiter.md.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

import structlog

from choir_agent import spans
from choir_agent.arbiter.approvals import Approvals
from choir_agent.arbiter.execute import Outcome, execute, with_summary
from choir_agent.arbiter.past_failures import PastFailures
from choir_agent.arbiter.policy import Moment, Policy
from choir_agent.arbiter.rule import check, rule
from choir_agent.arbiter.rulings import Ask, Permit, Refuse, Run, Wait
from choir_agent.budgets.limits import CALLS, calls_fault, exhausted
from choir_agent.credentials.scope import secrets_for
from choir_agent.locks.locks import Locks
from choir_agent.log.session_log import SessionLog
from choir_agent.log.state import CallStage, CallState, SessionState
from choir_agent.memory.snapshots import Snapshots
from choir_agent.replication.replicate import Replication
from choir_agent.settings import CurrentSettings
from choir_agent.tools.artifacts import Artifacts
from choir_agent.tools.availability import is_off, not_offered
from choir_agent.tools.tool import CallContext
from choir_agent.tools.workspace import Workspace
from choir_common.wire.events import (
    EventPayload,
    ToolCall,
    ToolCallCommitted,
    ToolCallRequested,
    ToolResultCommitted,
)
from choir_common.wire.json import JsonObject

log = structlog.get_logger("choir.agent.arbiter")

INTERRUPTED = Outcome(
    "interrupted",
    {
        "code": "outcome_unknown",
        "message": "The agent stopped while this ran, so its outcome is unknown: it may have "
        "happened, in whole or in part. Check before doing it again.",
    },
)
CANCELLED = Outcome(
    "interrupted",
    {
        "code": "cancelled",
        "message": "This was stopped before it ended; what it had done by then stands.",
    },
)
NOT_APPROVED = {
    "rejected": Outcome("refused", {"code": "rejected", "message": "A human rejected this call."}),
    "expired": Outcome(
        "refused",
        {
            "code": "expired",
            "message": "The request for approval expired: nobody decided in time, so this call did "
            "not run. Nobody rejected it; ask the user before you try it again.",
        },
    ),
}


class Arbiter:
    """The only appender to the log, and the only way to run a tool."""

    def __init__(
        self,
        session_log: SessionLog,
        replication: Replication,
        policy: Policy,
        workspace: Workspace,
        locks: Locks,
        approvals: Approvals,
        current: Callable[[], CurrentSettings],
        snapshots: Snapshots,
        past: PastFailures,
    ) -> None:
        self._log = session_log
        self._replication = replication
        self._policy = policy
        self._workspace = workspace
        self._locks = locks
        self._approvals = approvals
        self._current = current
        self._snapshots = snapshots
        self._past = past
        self._leaves_open = False
        self._parking = ""
        self._artifacts = Artifacts(workspace, session_log.clean)

    @property
    def state(self) -> SessionState:
        """The folded state of the log."""
        return self._log.state

    def commit(self, lane: str, payload: EventPayload, *, more_follows: bool = False) -> int:
        """Append an event and return its revision. Never waits, so commits are serial.

        With `more_follows` the event is sent together with the next one.
        """
        rev = self._log.append(lane, payload, more_follows=more_follows)
        # A snapshot must not come between events that belong together.
        if not more_follows:
            self._snapshots.follow(self._log)
        return rev

    def has_taken(self, inbox_id: str) -> bool:
        """Return whether the log already contains a user's message."""
        return inbox_id in self._log.taken

    @property
    def leaves_open(self) -> bool:
        """Whether interrupted work is now left to the next epoch."""
        return self._leaves_open

    def when_asking(self, tell: Callable[[], None]) -> None:
        """Register a callback for each call that begins to wait for a human."""
        self._approvals.when_pending(tell)

    def waits_for_human(self, turn_id: str) -> bool:
        """Return whether every open call of a turn or job waits for a human's decision."""
        work = self.state.work(turn_id)
        calls = work.calls if work is not None else ()
        left = [one.call.call_id for one in calls if one.stage is not CallStage.DONE]
        return bool(left) and all(map(self._approvals.is_pending, left))

    @contextlib.contextmanager
    def parking(self, turn_id: str) -> Iterator[None]:
        """Within this context the turn's calls may be interrupted without results: the turn is being
        parked."""
        self._parking = turn_id
        try:
            yield
        finally:
            self._parking = ""

    def leave_open(self) -> None:
        """From now on write no results for interrupted calls, because the agent is stopping.

        The next epoch treats such a call as after a crash: an idempotent call runs again, any other is
        closed as interrupted, and a call that waits for a human continues to wait.
        """
        self._leaves_open = True

    async def use(self, lane: str, turn_id: str, calls: tuple[CallState, ...]) -> None:
        """Take the calls of one model output to their results, from wherever the log left them.

        Calls run concurrently; calls with conflicting locks run in the model's order. On cancellation,
        every call that was requested still gets its result.
        """
        open_calls = [state for state in calls if state.stage is not CallStage.DONE]
        try:
            # Resolving a path reads the file system: keep it off the event loop.
            checked = await asyncio.to_thread(self._check, lane, open_calls)
            async with asyncio.TaskGroup() as tasks:
                for state, permit in zip(open_calls, checked, strict=True):
                    tasks.create_task(self._use_one(lane, turn_id, state, permit))
        except asyncio.CancelledError:
            if not self._leaves_open and turn_id != self._parking:
                self.abandon(lane, turn_id)
            raise

    def abandon(self, lane: str, turn_id: str) -> None:
        """Close the open calls of a turn or job that ends: every requested call gets a result."""
        work = self.state.work(turn_id)
        for state in work.calls if work is not None else ():
            if state.stage in (CallStage.REQUESTED, CallStage.COMMITTED):
                self._close(lane, turn_id, state.call, CANCELLED)

    def _check(self, lane: str, calls: list[CallState]) -> list[Permit | Refuse]:
        return [self._check_one(lane, state.call) for state in calls]

    def _check_one(self, lane: str, call: ToolCall) -> Permit | Refuse:
        checked = check(call, self._policy.registry, self._workspace, lane, self._hidden())
        if isinstance(checked, Refuse):
            return checked
        beside = self._policy.locks_beside(checked.tool.manifest, lane)
        return replace(checked, locks=(*checked.locks, *beside))

    async def _use_one(
        self, lane: str, turn_id: str, state: CallState, checked: Permit | Refuse
    ) -> None:
        call = state.call
        if state.stage is CallStage.COMMITTED:
            await self._resume(lane, turn_id, call, checked)
            return
        # No await before the locks are requested: tasks start in the model's order, and so do their
        # lock claims.
        if state.stage is CallStage.PROPOSED:
            self._request(lane, turn_id, call, checked)
        ruling = rule(checked, lane, self._locks, self._forbidden(lane, turn_id, checked))
        match ruling:
            case Refuse():
                self._refuse(lane, turn_id, call, ruling.error)
            case Ask():
                await self._ask(lane, turn_id, call, ruling.permit)
            case Wait():
                log.info("a call waits", call_id=call.call_id, behind=len(ruling.behind))
                await self._run(lane, turn_id, call, ruling.permit)
            case Run():
                await self._run(lane, turn_id, call, ruling.permit)
            case _:
                assert_never(ruling)

    def _forbidden(self, lane: str, turn_id: str, checked: Permit | Refuse) -> JsonObject | None:
        if isinstance(checked, Refuse):
            return None
        settings, tool = self._current().settings, checked.tool.manifest
        if is_off(tool.name, settings):
            message = f"{tool.name} is switched off in config.json (features)."
            return {"code": "switched_off", "message": message}
        moment = Moment(self.state, settings.budgets, lane, turn_id, self._hidden())
        return self._policy.forbids(tool, moment)

    def _hidden(self) -> frozenset[str]:
        return not_offered(self._policy.registry.manifests(), self._current().settings)

    def _refuse(self, lane: str, turn_id: str, call: ToolCall, error: JsonObject) -> None:
        budgets, work = self._current().settings.budgets, self.state.work(turn_id)
        # The first refusal for the budget also records that it is exhausted: then the turn asks the
        # user.
        if work is not None and calls_fault(self.state, budgets) is not None:
            event = exhausted(CALLS, self.state, budgets, work.dm)
            if event is not None:
                self.commit(lane, event, more_follows=True)
        self._close(lane, turn_id, call, Outcome("refused", error))

    def _request(self, lane: str, turn_id: str, call: ToolCall, checked: Permit | Refuse) -> None:
        payload = ToolCallRequested(
            turn_id=turn_id, call_id=call.call_id, tool=call.tool, input=checked.arguments
        )
        self.commit(lane, payload)

    async def _ask(self, lane: str, turn_id: str, call: ToolCall, permit: Permit) -> None:
        # Control asks the user, in a text that no agent can influence.
        with spans.waiting("approval", call.call_id, lane):
            decision = await self._approvals.decision(call.call_id, call.tool, permit.arguments)
        if decision == "approved":
            await self._run(lane, turn_id, call, permit)
        else:
            self._close(lane, turn_id, call, NOT_APPROVED[decision])

    async def _run(self, lane: str, turn_id: str, call: ToolCall, permit: Permit) -> None:
        async with contextlib.AsyncExitStack() as held:
            with spans.waiting("locks", call.call_id, lane):
                await held.enter_async_context(self._locks.hold(lane, permit.locks))
            # Check again: while the call waited, a job may have started or a skill may have moved on.
            forbidden = self._forbidden(lane, turn_id, permit)
            if forbidden is not None:
                self._refuse(lane, turn_id, call, forbidden)
                return
            payload = ToolCallCommitted(
                turn_id=turn_id, call_id=call.call_id, tool=call.tool, locks=permit.locks
            )
            rev = self.commit(lane, payload)
            await self._carry_out(lane, turn_id, call, permit, rev)

    async def _resume(
        self, lane: str, turn_id: str, call: ToolCall, checked: Permit | Refuse
    ) -> None:
        """Close a call that a crash interrupted: run it again if it is idempotent, else as interrupted."""
        if isinstance(checked, Refuse) or not checked.tool.manifest.runtime.idempotent:
            self._close(lane, turn_id, call, INTERRUPTED)
            return
        async with self._locks.hold(lane, checked.locks):
            # Before an effect, `session_resumed` must be durable as well: a fenced process must not
            # repeat it.
            await self._carry_out(lane, turn_id, call, checked, self.state.rev)

    async def _carry_out(
        self, lane: str, turn_id: str, call: ToolCall, permit: Permit, rev: int
    ) -> None:
        began = time.perf_counter()
        try:
            # A crash must never hide an effect: the commit is durable before the tool starts.
            if permit.tool.manifest.runtime.side_effect != "none":
                await self._replication.durable(rev)
            context = self._context(lane, turn_id, call, permit)
            outcome = await execute(permit, context, self._artifacts)
            outcome = await self._past.beside(call.tool, call.call_id, outcome)
        except asyncio.CancelledError:
            # Close the call here, while its locks are still held.
            if not self._leaves_open:
                self._close(lane, turn_id, call, CANCELLED)
            raise
        self._close(lane, turn_id, call, outcome, (time.perf_counter() - began) * 1000)

    def _context(self, lane: str, turn_id: str, call: ToolCall, permit: Permit) -> CallContext:
        current, work = self._current(), self.state.work(turn_id)
        return CallContext(
            call_id=call.call_id,
            lane=lane,
            path=permit.path,
            turn_id=turn_id,
            dm=work.dm if work is not None else "",
            settings=current.settings,
            secrets=secrets_for(permit.tool.manifest.runtime.secret_resources, current),
        )

    def _close(
        self, lane: str, turn_id: str, call: ToolCall, outcome: Outcome, duration_ms: float = 0.0
    ) -> None:
        # The tool's events precede its result and are sent together with it.
        for event in outcome.events:
            self.commit(lane, event, more_follows=True)
        payload = ToolResultCommitted(
            turn_id=turn_id,
            call_id=call.call_id,
            tool=call.tool,
            status=outcome.status,
            output=with_summary(outcome.output),
            duration_ms=round(duration_ms, 3),
            exposure=outcome.exposure,
            masked=outcome.masked,
            artifact_ref=outcome.artifact_ref,
        )
        self.commit(lane, payload)
        log.info("a call ended", tool=call.tool, call_id=call.call_id, status=outcome.status)
