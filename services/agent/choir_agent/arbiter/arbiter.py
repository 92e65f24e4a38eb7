"""The arbiter: appends events, and takes tool calls through check, rule, lock, commit, execute and result.

The lanes change nothing without it. See docs/design/arbiter.md.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import assert_never

import structlog

from choir_agent import tracing_spans
from choir_agent.arbiter.approval_client import NOT_APPROVED, ApprovalClient
from choir_agent.arbiter.call_execution import CallOutcome, FailureHints, execute_call, with_summary
from choir_agent.arbiter.call_policy import RuledCall, question_of_call, rule_call
from choir_agent.arbiter.conversation_rule import conversation_refusal, own_recipients
from choir_agent.arbiter.host_rule import (
    HostRule,
    HostSource,
    NoHosts,
    describe_refused,
    uses_proxy,
)
from choir_agent.arbiter.rulings import (
    AskHuman,
    CheckedCall,
    Question,
    RefuseCall,
    RunCall,
    WaitForLocks,
    check_call,
    rule_on_call,
)
from choir_agent.arbiter.tool_policy import PolicyContext, ToolPolicy
from choir_agent.budgets.limits import CALLS, BudgetExceeded, exhausted_event, tool_call_refusal
from choir_agent.budgets.money import UNLIMITED, MoneyReserver
from choir_agent.budgets.spending import SpendingReader
from choir_agent.egress.call_connections import NO_PROXY, ConnectionAccounts
from choir_agent.locks.lock_manager import LockManager
from choir_agent.log.log_replicator import LogReplicator
from choir_agent.log.session_log import SessionLog
from choir_agent.log.session_state import CallStage, CallState, SessionState
from choir_agent.provenance.result_origins import EndedCall, result_provenance
from choir_agent.provenance.taint_rule import TaintRule, runs_offline
from choir_agent.settings import SettingsSource
from choir_agent.tools.artifacts import ArtifactStore
from choir_agent.tools.attached_files import call_payload, describe_attachments
from choir_agent.tools.availability import secrets_for, switch_of, unavailable_tools
from choir_agent.tools.tool import CallContext
from choir_agent.tools.workspace import Workspace
from choir_agent.working_memory.working_memory import SnapshotWriter
from choir_common.lanes import is_edge
from choir_common.wire.events import (
    EventPayload,
    ToolCall,
    ToolCallCommitted,
    ToolCallRequested,
    ToolResultCommitted,
)
from choir_common.wire.model import JsonObject
from choir_common.wire.provenance import ResultProvenance
from choir_common.wire.rpc import ApprovalRequest

log = structlog.get_logger("choir.agent.arbiter")

INTERRUPTED = CallOutcome(
    "interrupted",
    {
        "code": "outcome_unknown",
        "message": "The agent stopped during this call, so its outcome is unknown: it may have taken effect, "
        "completely or partly. Check before you repeat it.",
    },
)
CANCELLED = CallOutcome(
    "interrupted",
    {
        "code": "cancelled",
        "message": "This call was stopped before it finished; its effects so far remain.",
    },
)


class Arbiter:
    """The only appender to the log, and the only way to run a tool."""

    def __init__(
        self,
        *,
        session_log: SessionLog,
        replication: LogReplicator,
        policy: ToolPolicy,
        workspace: Workspace,
        locks: LockManager,
        approvals: ApprovalClient,
        settings: SettingsSource,
        snapshots: SnapshotWriter,
        failure_hints: FailureHints,
        spending: SpendingReader,
        money: MoneyReserver = UNLIMITED,
        hosts: HostSource = NoHosts(),  # noqa: B008 - has no state
        connections: ConnectionAccounts = NO_PROXY,
    ) -> None:
        self._log = session_log
        self._replication = replication
        self._policy = policy
        self._workspace = workspace
        self._locks = locks
        self._approvals = approvals
        self._settings = settings
        self._snapshots = snapshots
        self._failure_hints = failure_hints
        self._money = money
        self._spending = spending
        self._spent_usd: Decimal | None = None
        self._taint_rule = TaintRule(hosts)
        self._host_rule = HostRule(hosts)
        self._connections = connections
        self._leaves_open = False
        self._parking: set[str] = set()
        """The turns that are being parked now."""
        self._artifacts = ArtifactStore(workspace, session_log.redactor)

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

    def record_refusal(self, lane: str, turn_id: str, refusal: BudgetExceeded) -> None:
        """Record once that a budget is exhausted; the next event asks the user for more of it."""
        budgets, work = self._settings.current().settings.budgets, self.state.find_work(turn_id)
        if work is None:
            return
        event = refusal.event(self.state, budgets, dm=work.dm, lane=lane)
        if event is not None:
            self.commit(lane, event, more_follows=True)

    def has_message(self, inbox_id: str) -> bool:
        """Return whether the log already contains a user's message."""
        return inbox_id in self._log.taken_inbox_ids

    @property
    def is_suspending(self) -> bool:
        """Whether interrupted work is now left to the next epoch."""
        return self._leaves_open

    def wake_on_approval_wait(self, wakeup: asyncio.Event) -> None:
        """Set this event whenever a call begins to wait for a human."""
        self._approvals.wake_on_pending(wakeup)

    def is_waiting_for_human(self, turn_id: str) -> bool:
        """Return whether every open call of a turn or job waits for a human's decision."""
        work = self.state.find_work(turn_id)
        calls = work.calls if work is not None else ()
        open_ids = [state.call.call_id for state in calls if state.stage is not CallStage.DONE]
        return bool(open_ids) and all(map(self._approvals.is_pending, open_ids))

    @contextlib.contextmanager
    def parking_turn(self, turn_id: str) -> Iterator[None]:
        """Within this context the turn's calls may be interrupted without results: the turn is being
        parked."""
        self._parking.add(turn_id)
        try:
            yield
        finally:
            self._parking.discard(turn_id)

    def suspend(self) -> None:
        """From now on write no results for interrupted calls, because the agent is stopping.

        The next epoch treats such a call as after a crash: an idempotent call runs again, any other is
        closed as interrupted, and a call that waits for a human continues to wait.
        """
        self._leaves_open = True

    async def run_calls(self, lane: str, turn_id: str, calls: tuple[CallState, ...]) -> None:
        """Take the calls of one model output to their results, from wherever the log left them.

        Calls run concurrently; calls with conflicting locks run in the model's order. On cancellation,
        every call that was requested still gets its result.
        """
        open_calls = [state for state in calls if state.stage is not CallStage.DONE]
        try:
            policy = self._settings.current().settings.policy
            self._spent_usd = await self._spending.spent_today(policy)
            # Resolving a path reads the file system: keep it off the event loop.
            checked = await asyncio.to_thread(self._check, lane, open_calls)
            async with asyncio.TaskGroup() as tasks:
                for state, permit in zip(open_calls, checked, strict=True):
                    tasks.create_task(self._run_call(lane, turn_id, state, permit))
        except asyncio.CancelledError:
            if not self._leaves_open and turn_id not in self._parking:
                self.close_open_calls(lane, turn_id)
            raise

    def close_open_calls(self, lane: str, turn_id: str) -> None:
        """Close the open calls of a turn or job that ends: every requested call gets a result."""
        work = self.state.find_work(turn_id)
        for state in work.calls if work is not None else ():
            if state.stage in (CallStage.REQUESTED, CallStage.COMMITTED):
                self._close(lane, turn_id, state.call, CANCELLED)

    def _check(self, lane: str, calls: list[CallState]) -> list[CheckedCall | RefuseCall]:
        return [self._check_one(lane, state.call) for state in calls]

    def _check_one(self, lane: str, call: ToolCall) -> CheckedCall | RefuseCall:
        checked = check_call(call, self._policy.registry, self._workspace, lane, self._hidden())
        if isinstance(checked, RefuseCall):
            return checked
        extra = self._policy.extra_locks(checked.tool.manifest, lane)
        return replace(checked, locks=(*checked.locks, *extra))

    async def _run_call(
        self, lane: str, turn_id: str, state: CallState, checked: CheckedCall | RefuseCall
    ) -> None:
        call = state.call
        if state.stage is CallStage.COMMITTED:
            await self._resume(lane, turn_id, call, checked)
            return
        # No await before the locks are requested: tasks start in the model's order, and so do their
        # lock claims.
        if state.stage is CallStage.PROPOSED:
            self._request(lane, turn_id, call, checked)
        ruled = (
            None if isinstance(checked, RefuseCall) else self._apply_policy(lane, turn_id, checked)
        )
        ruling = rule_on_call(
            checked,
            lane,
            self._locks,
            self._forbidden(lane, turn_id, checked, ruled),
            question=self._question(lane, checked, ruled),
        )
        match ruling:
            case RefuseCall():
                self._refuse(lane, turn_id, call, ruling.error)
            case AskHuman():
                await self._ask(lane, turn_id, call, ruling)
            case WaitForLocks():
                log.info(
                    "tool call waits for locks", call_id=call.call_id, behind=len(ruling.behind)
                )
                await self._run(lane, turn_id, call, ruling.permit)
            case RunCall():
                await self._run(lane, turn_id, call, ruling.permit)
            case _:
                assert_never(ruling)

    def _apply_policy(self, lane: str, turn_id: str, checked: CheckedCall) -> RuledCall:
        settings = self._settings.current().settings
        tool_recipients = self._host_rule.known_recipients(checked.tool.manifest.name)
        own = own_recipients(settings.conversations, self._dm(turn_id))
        return rule_call(
            settings.policy,
            checked,
            lane,
            spent_usd=self._spent_usd,
            known_recipients=(*tool_recipients, *own),
        )

    def _forbidden(
        self, lane: str, turn_id: str, checked: CheckedCall | RefuseCall, ruled: RuledCall | None
    ) -> JsonObject | None:
        if isinstance(checked, RefuseCall) or ruled is None:
            return None
        settings, tool = self._settings.current().settings, checked.tool.manifest
        if switch := switch_of(tool.name, settings):
            message = f"{tool.name} is switched off in config.json ({switch})."
            return {"code": "switched_off", "message": message}
        context = PolicyContext(self.state, settings.budgets, lane, turn_id, self._hidden())
        refused = self._policy.refusal(tool, context)
        elsewhere = conversation_refusal(checked, settings.conversations, self._dm(turn_id))
        return refused or elsewhere or ruled.denial

    def _question(
        self, lane: str, checked: CheckedCall | RefuseCall, ruled: RuledCall | None
    ) -> Question | None:
        if isinstance(checked, RefuseCall) or ruled is None:
            return None
        policy = self._settings.current().settings.policy
        return question_of_call(
            self._taint_rule,
            ruled,
            checked,
            lane=lane,
            lane_taint=self.state.taint.lane(lane),
            new_hosts=self._host_rule.new_hosts(policy, checked, ruled.call.destinations, lane),
        )

    def _hidden(self) -> frozenset[str]:
        return unavailable_tools(
            self._policy.registry.manifests(), self._settings.current().settings
        )

    def _refuse(self, lane: str, turn_id: str, call: ToolCall, error: JsonObject) -> None:
        budgets, work = self._settings.current().settings.budgets, self.state.find_work(turn_id)
        # The first refusal for the budget also records that it is exhausted: then the turn asks the
        # user.
        if work is not None and tool_call_refusal(self.state, budgets) is not None:
            event = exhausted_event(CALLS, self.state, budgets, dm=work.dm, lane=lane)
            if event is not None:
                self.commit(lane, event, more_follows=True)
        self._close(lane, turn_id, call, CallOutcome("refused", error))

    def _request(
        self, lane: str, turn_id: str, call: ToolCall, checked: CheckedCall | RefuseCall
    ) -> None:
        payload = ToolCallRequested(
            turn_id=turn_id, call_id=call.call_id, tool=call.tool, input=checked.arguments
        )
        self.commit(lane, payload)

    def _dm(self, turn_id: str) -> str:
        work = self.state.find_work(turn_id)
        return work.dm if work is not None else ""

    async def _ask(self, lane: str, turn_id: str, call: ToolCall, ask: AskHuman) -> None:
        # Control asks the user, in a text that no agent can influence, or knows an earlier yes.
        files = await asyncio.to_thread(
            describe_attachments,
            self._workspace,
            ask.permit.tool.manifest.runtime.flow,
            ask.permit.arguments,
        )
        request = ApprovalRequest(
            request_type="call",
            call_id=call.call_id,
            payload=call_payload(call.tool, ask.permit.arguments, files),
            why=ask.question.why,
            scopes=ask.question.scopes,
            grants=ask.question.grants,
            hosts=ask.question.hosts,
            job_id=turn_id if not is_edge(lane) else None,
            dm=self._dm(turn_id),
        )
        with tracing_spans.wait_span("approval", call.call_id, lane):
            decision = await self._approvals.decision(request)
        if decision is None:
            self._close(lane, turn_id, call, NOT_APPROVED["changed"])
        elif decision.status == "approved":
            approved_files = tuple(described.file for described in files)
            permit = replace(ask.permit, hosts=ask.question.hosts, shown_files=approved_files)
            await self._run(lane, turn_id, call, permit, approved=True, grant_id=decision.grant_id)
        else:
            self._close(lane, turn_id, call, NOT_APPROVED[decision.status])

    async def _run(
        self,
        lane: str,
        turn_id: str,
        call: ToolCall,
        permit: CheckedCall,
        *,
        approved: bool = False,
        grant_id: str | None = None,
    ) -> None:
        async with contextlib.AsyncExitStack() as locks:
            with tracing_spans.wait_span("locks", call.call_id, lane):
                await locks.enter_async_context(self._locks.hold(lane, permit.locks))
            # Check again: while the call waited, a job may have started or a skill may have moved on.
            ruled = self._apply_policy(lane, turn_id, permit)
            forbidden = self._forbidden(lane, turn_id, permit, ruled)
            if forbidden is not None:
                self._refuse(lane, turn_id, call, forbidden)
                return
            payload = ToolCallCommitted(
                turn_id=turn_id,
                call_id=call.call_id,
                tool=call.tool,
                locks=permit.locks,
                approved=approved,
                grant_id=grant_id,
            )
            rev = self.commit(lane, payload)
            await self._execute(lane, turn_id, call, permit, rev)

    async def _resume(
        self, lane: str, turn_id: str, call: ToolCall, checked: CheckedCall | RefuseCall
    ) -> None:
        """Close a call that a crash interrupted: run it again if it is idempotent, else as interrupted."""
        if isinstance(checked, RefuseCall) or not checked.tool.manifest.runtime.idempotent:
            self._close(lane, turn_id, call, INTERRUPTED)
            return
        async with self._locks.hold(lane, checked.locks):
            # Before an effect, `session_resumed` must be durable as well: a fenced process must not
            # repeat it.
            await self._execute(lane, turn_id, call, checked, self.state.rev)

    async def _execute(
        self, lane: str, turn_id: str, call: ToolCall, permit: CheckedCall, rev: int
    ) -> None:
        began = time.perf_counter()
        try:
            # A crash must never hide an effect: the commit is durable before the tool starts.
            if permit.tool.manifest.runtime.side_effect != "none":
                await self._replication.durable(rev)
            context = self._context(lane, turn_id, call, permit)
            outcome = await execute_call(permit, context, self._artifacts)
            outcome = await self._failure_hints.add_hints(
                call.tool, call.call_id, outcome, dm=context.dm
            )
            outcome = await self._add_connections(permit, context, outcome)
            outcome = replace(outcome, provenance=self._provenance(permit, context, outcome))
        except asyncio.CancelledError:
            # Close the call here, while its locks are still held.
            if not self._leaves_open:
                self._close(lane, turn_id, call, CANCELLED)
            raise
        self._close(lane, turn_id, call, outcome, (time.perf_counter() - began) * 1000)

    def _context(self, lane: str, turn_id: str, call: ToolCall, permit: CheckedCall) -> CallContext:
        current = self._settings.current()
        manifest = permit.tool.manifest
        offline = runs_offline(
            manifest.runtime.flow,
            permit.arguments,
            self.state.taint.lane(lane),
            hosts=permit.hosts,
        )
        has_proxy = uses_proxy(manifest, offline=offline)
        return CallContext(
            call_id=call.call_id,
            lane=lane,
            path=permit.path,
            turn_id=turn_id,
            dm=self._dm(turn_id),
            settings=current.settings,
            secrets=secrets_for(manifest.runtime.secret_resources, current),
            money=self._money,
            offline=offline,
            hosts=self._host_rule.reachable(permit) if has_proxy else (),
            shown_files=permit.shown_files,
        )

    async def _add_connections(
        self, permit: CheckedCall, context: CallContext, outcome: CallOutcome
    ) -> CallOutcome:
        if not uses_proxy(permit.tool.manifest, offline=context.offline):
            return outcome
        connections = await self._connections.take(context.call_id)
        output = {**outcome.output, **describe_refused(connections)}
        return replace(outcome, output=output, connections=connections)

    def _provenance(
        self, permit: CheckedCall, context: CallContext, outcome: CallOutcome
    ) -> ResultProvenance:
        executed_call = EndedCall(
            tool=permit.tool.manifest.name,
            flow=permit.tool.manifest.runtime.flow,
            arguments=permit.arguments,
            output=outcome.output,
            path=permit.path,
            offline=context.offline,
        )
        return result_provenance(executed_call, self.state.taint)

    def _close(
        self,
        lane: str,
        turn_id: str,
        call: ToolCall,
        outcome: CallOutcome,
        duration_ms: float = 0.0,
    ) -> None:
        # The tool's events precede its result and are sent together with it.
        for event in outcome.events:
            self.commit(outcome.events_lane or lane, event, more_follows=True)
        if outcome.refusal is not None:
            self.record_refusal(lane, turn_id, outcome.refusal)
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
            pictures=outcome.pictures,
            usage=outcome.usage,
            provenance=outcome.provenance,
            connections=outcome.connections,
        )
        self.commit(lane, payload)
        log.info("tool call ended", tool=call.tool, call_id=call.call_id, status=outcome.status)
