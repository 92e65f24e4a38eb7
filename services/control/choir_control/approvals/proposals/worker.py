"""Worker that applies approved proposals once, and resumes those that a crash interrupted.

A decision wakes it. One at a time, so that two changes of one configuration or repository
never overlap.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping

import structlog

from choir_common.approvals import request_digest
from choir_common.errors import ChoirError, Conflict, NotFound, OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_common.sentence_translation import StoredSentence
from choir_common.wire.model import JsonObject
from choir_control.agents.rollout.service import AgentRedeployer
from choir_control.approvals.proposals.effect_store import Effect, EffectStore, Stage, StageResult
from choir_control.approvals.proposals.proposal_type import ProposalType, StaleProposal
from choir_control.approvals.store import Approval, ApprovalStore
from choir_control.approvals.texts import format_result, summary_text
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier, OutboxRescanner
from choir_control.periodic import run_periodically

log = structlog.get_logger("choir.evolution")

POLL_INTERVAL_S = 5.0
MAX_ATTEMPTS = 20
MAX_DETAIL_CHARS = 2_000
IMAGE_CHANGING_TYPES = ("skill", "repo_change")
"""The agent is rebuilt and updated after a proposal of these types."""
PROPOSE_AGAIN = "Nothing was changed. Propose it again, so that a human sees the current state."


class ProposalWorker:
    """Applies and rolls back approved proposals."""

    def __init__(
        self,
        *,
        approvals: ApprovalStore,
        effects: EffectStore,
        proposal_types: Mapping[str, ProposalType],
        redeployer: AgentRedeployer,
        signal_locks: SignalLocks,
        notifier: Notifier,
        outbox: OutboxRescanner,
    ) -> None:
        self._approvals = approvals
        self._effects = effects
        self._proposal_types = proposal_types
        self._redeployer = redeployer
        self._signal_locks = signal_locks
        self._notifier = notifier
        self._outbox = outbox
        self._wake_up = asyncio.Event()
        self._run_lock = asyncio.Lock()
        self._attempts: Counter[str] = Counter()

    def wake(self) -> None:
        """Check for work now; called after a decision."""
        self._wake_up.set()

    async def run(self) -> None:
        """Check for work at startup, at every decision and periodically, until cancelled."""
        await run_periodically(
            POLL_INTERVAL_S, "applying approved proposals", self.run_pending, self._wake_up
        )

    async def run_pending(self) -> int:
        """Apply or resume everything that is unfinished; return how many were completed."""
        async with self._run_lock:
            return sum(
                [await self._process(name) for name in await self._effects.list_unfinished()]
            )

    async def roll_back(self, approval_id: str, by: str) -> None:
        """Schedule the rollback of an applied proposal; the worker executes it right after.

        Raises Conflict when it is not applied, or later changes depend on it.
        """
        approval = await self._approvals.get(approval_id)
        if approval is None:
            raise NotFound(
                _("There is no approval request {approval_id!r}.").format(
                    approval_id=approval_id[:100]
                )
            )
        plan = await self._effects.get_applied_plan(approval_id)
        if plan is None:
            raise Conflict(
                _("{approval_id} is {state}; only an applied request can be rolled back.").format(
                    approval_id=approval_id, state=approval.state
                )
            )
        undo = await self._proposal_type(approval).plan_rollback(approval, plan)
        if not await self._effects.start_rollback(approval_id, undo, by):
            raise Conflict(
                _("{approval_id} is already being rolled back.").format(approval_id=approval_id)
            )
        self.wake()

    async def _process(self, approval_id: str) -> bool:
        effect = await self._effects.start_or_resume(approval_id)
        approval = await self._approvals.get(approval_id)
        if effect is None or approval is None:
            return False
        try:
            detail = await self._execute(effect, approval)
        except Unavailable as error:
            self._attempts[approval_id] += 1
            # With an unknown outcome the change may be applied: reporting a failure could be wrong.
            if isinstance(error, OutcomeUnknown) or self._attempts[approval_id] < MAX_ATTEMPTS:
                log.warning(
                    "effect failed, will be retried", approval_id=approval_id, error=error.message
                )
                return False
            return await self._fail(effect, approval, error)
        except ChoirError as error:
            return await self._fail(effect, approval, error)
        reverting = effect.stage == "reverting"
        return await self._finish(
            effect, approval, "rolled_back" if reverting else "applied", detail
        )

    async def _execute(self, effect: Effect, approval: Approval) -> str:
        proposal_type = self._proposal_type(approval)
        if effect.stage == "reverting":
            detail = await proposal_type.apply(approval, effect.undo or {})
        else:
            plan = effect.plan or await self._plan(effect, approval, proposal_type)
            detail = await proposal_type.apply(approval, plan)
        if approval.request_type in IMAGE_CHANGING_TYPES:
            result = await self._redeployer.redeploy(approval.agent_id)
            detail = " ".join(part for part in (detail, result) if part)
        return detail

    async def _plan(
        self, effect: Effect, approval: Approval, proposal_type: ProposalType
    ) -> JsonObject:
        current_digest = request_digest(approval.request_type, approval.payload, approval.basis)
        # A row altered in the database must not be applied under the earlier decision.
        if not current_digest == approval.digest == effect.digest:
            raise StaleProposal(_("The stored request differs from what was approved."))
        plan = await proposal_type.make_plan(approval)
        if not await self._effects.store_plan(approval.approval_id, plan):
            raise Unavailable(_("Another worker is applying this."))
        return plan

    def _proposal_type(self, approval: Approval) -> ProposalType:
        proposal_type = self._proposal_types.get(approval.request_type)
        if proposal_type is None:
            raise Conflict(
                _("Choir does not apply a {request_type}; a human does.").format(
                    request_type=approval.request_type
                )
            )
        return proposal_type

    async def _fail(self, effect: Effect, approval: Approval, error: ChoirError) -> bool:
        # a change that could not be rolled back is still applied
        stage: Stage = "applied" if effect.stage == "reverting" else "failed"
        text = (
            f"{error.message} {PROPOSE_AGAIN}"
            if isinstance(error, StaleProposal)
            else error.message
        )
        return await self._finish(effect, approval, stage, text, failed=True)

    async def _finish(
        self, effect: Effect, approval: Approval, stage: Stage, detail: str, failed: bool = False
    ) -> bool:
        detail = detail[:MAX_DETAIL_CHARS]
        summary = summary_text(approval.request_type, approval.payload)
        text = format_result(
            summary, approval.approval_id, _outcome_label(stage, failed), StoredSentence(detail)
        )
        user_text = self._approvals.translate(approval.dm, text)
        listener = await self._effects.find_live_session(approval.agent_id)
        # the conversation's lock: its signals must become visible in the order of their ids
        async with self._signal_locks.of(listener.dm if listener else approval.home_dm):
            is_finished = await self._effects.finish_stage(
                effect, approval, StageResult(stage, detail, text), listener, user_text
            )
        self._attempts.pop(approval.approval_id, None)
        if is_finished and listener:
            self._notifier.notify(listener.session_id)
        if is_finished:
            self._outbox.rescan(approval.dm)
        log.info(
            "effect finished" if not failed else "effect failed",
            approval_id=approval.approval_id,
            agent_id=approval.agent_id,
            request_type=approval.request_type,
            stage=stage,
            detail=detail,
        )
        return is_finished


def _outcome_label(stage: Stage, failed: bool) -> str:
    if failed:
        return _("Not rolled back") if stage == "applied" else _("Failed")
    return _("Rolled back") if stage == "rolled_back" else _("Done")
