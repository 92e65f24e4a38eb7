"""Builds and updates of agents as operations, and updates after an approved repository change.

An update that a crash interrupted is started again: a second update does no harm.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.errors import ChoirError, Conflict, RateLimited, Unavailable
from choir_common.i18n import Message, _, join
from choir_common.sentence_translation import StoredSentence
from choir_common.wire.model import WireModel
from choir_common.wire.operations import AgentOutcome, OperationView, Outcome, RolloutReport
from choir_control.agents.operations.progress import (
    MARK_FAILED,
    MARK_RUNNING,
    MARK_SUCCEEDED,
    OperationProgress,
)
from choir_control.agents.operations.service import OperationFailed, OperationService
from choir_control.agents.operations.store import Requester
from choir_control.agents.rollout.update import AgentUpdater
from choir_control.configuration.current import ConfigService

MAX_LINE_CHARS = 200
UPDATE_TIMEOUT_S = 1_800.0
POLL_INTERVAL_S = 0.5
OUTCOMES: dict[Outcome, Message] = {
    "built": _("built"),
    "redeployed": _("redeployed"),
    "skipped": _("skipped"),
    "failed": _("failed"),
}


class UpdateService:
    """Service that starts builds and updates; the conversation `asker` is notified of the end."""

    def __init__(
        self, configuration: ConfigService, updater: AgentUpdater, operations: OperationService
    ) -> None:
        self._configuration = configuration
        self._updater = updater
        self._operations = operations

    async def build(self, agent_id: str, asker: Requester | None = None) -> str:
        """Start a build; raises NotFound, and Conflict while the agent is built or updated."""
        self._configuration.current.agent(agent_id)

        async def work(progress: OperationProgress) -> WireModel:
            return _make_report(progress, await self._updater.build(agent_id, progress))

        alone = _exclusive_subject(agent_id)
        return await self._operations.begin("agent build", agent_id, alone, work, asker)

    async def update(self, agent_id: str, asker: Requester | None = None) -> str:
        """Start an update; raises NotFound, and Conflict while the agent is built or updated."""
        self._configuration.current.agent(agent_id)

        async def work(progress: OperationProgress) -> WireModel:
            return _judge(_make_report(progress, await self._updater.update(agent_id, progress)))

        alone = _exclusive_subject(agent_id)
        return await self._operations.begin("agent update", agent_id, alone, work, asker)

    async def update_all(self, asker: Requester | None = None) -> str:
        """Start the update of every agent, one after the other; `asker` gets a progress card."""
        agents = sorted(self._configuration.current.config.agents)

        async def work(progress: OperationProgress) -> WireModel:
            outcomes: list[AgentOutcome] = []
            for agent_id in agents:
                part = _AgentProgress(progress, agents, outcomes)
                part.progress("starting")
                outcomes.append(await self._updater.update_or_say(agent_id, part))
                progress.output(f"{len(outcomes)}/{len(agents)} {_describe_outcome(outcomes[-1])}")
            progress.show(_render_card(agents, outcomes))
            return _judge(_make_report(progress, *outcomes))

        everyone = frozenset(f"agent {agent_id}" for agent_id in agents)
        return await self._operations.begin(
            "agent update-all", "all", everyone, work, asker, has_card=True
        )


@dataclass(frozen=True, slots=True)
class _AgentProgress:
    """Progress of the current agent among several."""

    operation: OperationProgress
    agents: Sequence[str]
    outcomes: Sequence[AgentOutcome]
    """Outcomes of the agents before it."""

    def progress(self, text: str, share: float | None = None) -> None:
        number, of = len(self.outcomes), len(self.agents)
        done = None if share is None else (number + share) / of
        self.operation.progress(f"{self.agents[number]} ({number + 1}/{of}): {text}", done)
        self.operation.show(_render_card(self.agents, self.outcomes, text))

    def output(self, text: str) -> None:
        self.operation.output(f"{self.agents[len(self.outcomes)]}: {text}")


def _render_card(agents: Sequence[str], outcomes: Sequence[AgentOutcome], now: str = "") -> str:
    """Return the card's text, one line per agent; `now` is the step of the first one without an outcome."""
    lines: list[str] = [_("{done} of {total}").format(done=len(outcomes), total=len(agents))]
    for outcome in outcomes:
        mark = MARK_FAILED if outcome.outcome == "failed" else MARK_SUCCEEDED
        lines.append(join("", (f"{mark} ", _describe_outcome(outcome, MAX_LINE_CHARS))))
    for agent_id in agents[len(outcomes) :]:
        step, now = now, ""
        lines.append(
            f"{MARK_RUNNING} {agent_id}: {step[:MAX_LINE_CHARS]}" if step else f"· {agent_id}"
        )
    return join("\n", lines)


def _exclusive_subject(agent_id: str) -> frozenset[str]:
    return frozenset({f"agent {agent_id}"})


def _make_report(progress: OperationProgress, *outcomes: AgentOutcome) -> RolloutReport:
    """Return the report, and set the operation's summary text for users."""
    progress.outcome = join("; ", map(_describe_outcome, outcomes))
    return RolloutReport(agents=outcomes)


def _describe_outcome(outcome: AgentOutcome, max_chars: int | None = None) -> Message:
    version = f" ({outcome.image_version})" if outcome.image_version else ""
    room = (
        None
        if max_chars is None
        else max_chars - len(f"{outcome.agent_id} {outcome.outcome}{version}")
    )
    reason = StoredSentence(outcome.reason[: room and max(0, room - 2)])
    return _("{agent} {outcome}{version}{reason}").format(
        agent=outcome.agent_id,
        outcome=OUTCOMES[outcome.outcome],
        version=version,
        reason=join("", (": ", reason)) if reason else "",
    )


def _judge(report: RolloutReport) -> RolloutReport:
    """Return a report without failures; raise OperationFailed with the report otherwise."""
    failures = [
        f"{outcome.agent_id}: {outcome.reason}"
        for outcome in report.agents
        if outcome.outcome == "failed"
    ]
    if failures:
        raise OperationFailed("; ".join(failures), report)
    return report


class AgentRedeployer:
    """Updates agents in the same way as an operator."""

    def __init__(self, rollout: UpdateService, operations: OperationService) -> None:
        self._rollout = rollout
        self._operations = operations

    async def redeploy(self, agent_id: str) -> str:
        """Update an agent; return a text about the result. The commit stays in either case."""
        advice = _("Try `choirctl agent update {agent_id}`.").format(agent_id=agent_id)
        try:
            async with asyncio.timeout(UPDATE_TIMEOUT_S):
                operation = await self._wait(await self._start(agent_id))
        except TimeoutError:
            return _("Its update did not finish in time. {advice}").format(advice=advice)
        # retried by the worker
        except Unavailable:
            raise
        except ChoirError as error:
            return _("It was not updated: {message} {advice}").format(
                message=error.message, advice=advice
            )
        if operation.status == "succeeded":
            return _("{agent_id} is updated ({step}).").format(
                agent_id=agent_id, step=operation.step or "done"
            )
        return _("It was not updated: {reason} {advice}").format(
            reason=operation.error or operation.status, advice=advice
        )

    async def _start(self, agent_id: str) -> str:
        while True:
            try:
                return await self._rollout.update(agent_id)
            except (Conflict, RateLimited):
                # a running update may have read the repository before the change, so a new one is
                # needed
                await asyncio.sleep(POLL_INTERVAL_S)

    async def _wait(self, operation_id: str) -> OperationView:
        while True:
            view = await self._operations.get(operation_id)
            if view.status != "running":
                return view
            await asyncio.sleep(POLL_INTERVAL_S)
