"""Worker that applies approved proposals once, and resumes those that a crash interrupted.

Run by `app`; woken by a decision. One at a time, so that two changes of one configuration or repository
never overlap.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import structlog

from choir_common.approvals.digest import request_digest
from choir_common.approvals.rendering import request_summary
from choir_common.errors import ChoirError, Conflict, NotFound, OutcomeUnknown, Unavailable
from choir_common.wire.model import JsonObject
from choir_control.approvals.proposals.effect_store import Effect, EffectStore, Stage, StageResult
from choir_control.approvals.proposals.proposal_type import ProposalType, StaleProposal
from choir_control.approvals.store import Approval, ApprovalStore
from choir_control.approvals.texts import format_result
from choir_control.periodic import run_periodically

log = structlog.get_logger("choir.evolution")

POLL_INTERVAL_S = 5.0
MAX_ATTEMPTS = 20
MAX_DETAIL_CHARS = 2_000
PROPOSE_AGAIN = "Nothing was changed. Propose it again, so that a human sees it as it is now."


class ProposalWorker:
    """Applies and rolls back approved proposals."""

    def __init__(
        self,
        approvals: ApprovalStore,
        effects: EffectStore,
        proposal_types: Mapping[str, ProposalType],
        conversation_locks: Callable[[str], asyncio.Lock],
        notify_session: Callable[[str], None],
        notify_conversation: Callable[[str], None],
        activate: Callable[[Approval], Awaitable[str]],
    ) -> None:
        """`said` is called with a conversation (DM) that has a new message.

        `settle` makes an applied change effective: it builds and updates the agent, and
        returns a text
        about it.
        """
        self._approvals = approvals
        self._effects = effects
        self._carriers = proposal_types
        self._order = conversation_locks
        self._ring = notify_session
        self._said = notify_conversation
        self._settle = activate
        self._awake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._tries: Counter[str] = Counter()

    def wake(self) -> None:
        """Check for work now; called after a decision."""
        self._awake.set()

    async def run(self) -> None:
        """Check for work at startup, at every decision and every `SAMPLE_INTERVAL_S` seconds, until
        cancelled."""
        await run_periodically(
            POLL_INTERVAL_S, "carrying out what was approved", self.run_pending, self._awake
        )

    async def run_pending(self) -> int:
        """Apply or resume everything that is unfinished; return how many were completed."""
        async with self._turn:
            return sum(
                [await self._process(name) for name in await self._effects.list_unfinished()]
            )

    async def roll_back(self, approval_id: str, by: str) -> None:
        """Schedule the rollback of an applied proposal; the worker executes it right after.

        Raises Conflict when it is not applied, or later changes depend on it.
        """
        asked = await self._approvals.get(approval_id)
        if asked is None:
            raise NotFound(f"There is no request {approval_id[:100]!r} for a decision.")
        plan = await self._effects.get_applied_plan(approval_id)
        if plan is None:
            raise Conflict(
                f"{approval_id} is {asked.state}; only what is applied can be taken back."
            )
        undo = await self._proposal_type(asked).plan_rollback(asked, plan)
        if not await self._effects.start_rollback(approval_id, undo, by):
            raise Conflict(f"{approval_id} is being taken back already.")
        self.wake()

    async def _process(self, approval_id: str) -> bool:
        effect, asked = (
            await self._effects.start_or_resume(approval_id),
            await self._approvals.get(approval_id),
        )
        if effect is None or asked is None:
            return False
        try:
            detail = await self._execute(effect, asked)
        except Unavailable as error:
            self._tries[approval_id] += 1
            # With an unknown outcome the change may be applied: reporting a failure could be wrong.
            if isinstance(error, OutcomeUnknown) or self._tries[approval_id] < MAX_ATTEMPTS:
                log.warning("tried again later", approval_id=approval_id, error=error.message)
                return False
            return await self._fail(effect, asked, error)
        except ChoirError as error:
            return await self._fail(effect, asked, error)
        reverting = effect.stage == "reverting"
        return await self._finish(effect, asked, "rolled_back" if reverting else "applied", detail)

    async def _execute(self, effect: Effect, asked: Approval) -> str:
        carrier = self._proposal_type(asked)
        if effect.stage == "reverting":
            detail = await carrier.apply(asked, effect.undo or {})
        else:
            plan = effect.plan or await self._plan(effect, asked, carrier)
            detail = await carrier.apply(asked, plan)
        return " ".join(part for part in (detail, await self._settle(asked)) if part)

    async def _plan(self, effect: Effect, asked: Approval, carrier: ProposalType) -> JsonObject:
        now = request_digest(asked.request_type, asked.payload, asked.basis)
        # A row altered in the database must not be applied under the earlier decision.
        if not now == asked.digest == effect.digest:
            raise StaleProposal("What was approved is not what is stored.")
        plan = await carrier.make_plan(asked)
        if not await self._effects.store_plan(asked.approval_id, plan):
            raise Unavailable("Somebody else carries this out.")
        return plan

    def _proposal_type(self, asked: Approval) -> ProposalType:
        found = self._carriers.get(asked.request_type)
        if found is None:
            raise Conflict(f"Choir does not carry out a {asked.request_type}; a human does.")
        return found

    async def _fail(self, effect: Effect, asked: Approval, error: ChoirError) -> bool:
        # a change that could not be rolled back is still applied
        stage: Stage = "applied" if effect.stage == "reverting" else "failed"
        words = (
            f"{error.message} {PROPOSE_AGAIN}"
            if isinstance(error, StaleProposal)
            else error.message
        )
        return await self._finish(effect, asked, stage, words, failed=True)

    async def _finish(
        self, effect: Effect, asked: Approval, stage: Stage, detail: str, failed: bool = False
    ) -> bool:
        detail = detail[:MAX_DETAIL_CHARS]
        gist = request_summary(asked.request_type, asked.payload)
        words = format_result(gist, asked.approval_id, _word(stage, failed), detail)
        listener = await self._effects.find_live_session(asked.agent_id)
        # the conversation's lock: its signals must become visible in the order of their ids
        async with self._order(listener.dm if listener else asked.dm):
            ended = await self._effects.finish_stage(
                effect, asked, StageResult(stage, detail, words), listener
            )
        self._tries.pop(asked.approval_id, None)
        if ended and listener:
            self._ring(listener.session_id)
        if ended:
            self._said(asked.dm)
        log.info(
            "carried out" if not failed else "not carried out",
            approval_id=asked.approval_id,
            agent_id=asked.agent_id,
            request_type=asked.request_type,
            stage=stage,
            detail=detail,
        )
        return ended


def _word(stage: Stage, failed: bool) -> str:
    if failed:
        return "Not taken back" if stage == "applied" else "Failed"
    return "Taken back" if stage == "rolled_back" else "Done"
