"""Begin builds and updates as operations. Called by the operator door and by commands of conversations."""

from dataclasses import dataclass

from choir_common.wire.model import Wire
from choir_common.wire.operations import AgentOutcome, RolloutReport
from choir_control.configuration.current import Configuration
from choir_control.operations.progress import Progress
from choir_control.operations.run import Operations, WorkFailed
from choir_control.operations.store import Asker
from choir_control.rollout.update import Updater


class Rollout:
    """What an operator may begin; an `asker` is told of the end."""

    def __init__(
        self, configuration: Configuration, updater: Updater, operations: Operations
    ) -> None:
        self._configuration = configuration
        self._updater = updater
        self._operations = operations

    async def build(self, agent_id: str, asker: Asker | None = None) -> str:
        """Begin a build; raises NotFound, Conflict while the agent is built or updated."""
        self._configuration.current.agent(agent_id)

        async def work(progress: Progress) -> Wire:
            return _told(progress, await self._updater.build(agent_id, progress))

        alone = _only(agent_id)
        return await self._operations.begin("agent build", agent_id, alone, work, asker)

    async def update(self, agent_id: str, asker: Asker | None = None) -> str:
        """Begin an update; raises NotFound, Conflict while the agent is built or updated."""
        self._configuration.current.agent(agent_id)

        async def work(progress: Progress) -> Wire:
            return _judge(_told(progress, await self._updater.update(agent_id, progress)))

        alone = _only(agent_id)
        return await self._operations.begin("agent update", agent_id, alone, work, asker)

    async def update_all(self, asker: Asker | None = None) -> str:
        """Begin the update of every agent, one after the other; `asker` hears of each (spec 17.5, 19.7)."""
        agents = sorted(self._configuration.current.config.agents)

        async def work(progress: Progress) -> Wire:
            outcomes = []
            for number, agent_id in enumerate(agents):
                part = _Part(progress, agent_id, number, len(agents))
                outcomes.append(await self._updater.update_or_say(agent_id, part))
                await progress.milestone(f"{number + 1}/{len(agents)} {_words(outcomes[-1])}")
            return _judge(_told(progress, *outcomes))

        everyone = frozenset(f"agent {agent_id}" for agent_id in agents)
        return await self._operations.begin("agent update-all", "all", everyone, work, asker)


@dataclass(frozen=True, slots=True)
class _Part:
    """The progress of one agent among several."""

    whole: Progress
    agent_id: str
    number: int
    of: int

    def step(self, text: str, share: float | None = None) -> None:
        done = None if share is None else (self.number + share) / self.of
        self.whole.step(f"{self.agent_id} ({self.number + 1}/{self.of}): {text}", done)

    def line(self, text: str) -> None:
        self.whole.line(f"{self.agent_id}: {text}")


def _only(agent_id: str) -> frozenset[str]:
    return frozenset({f"agent {agent_id}"})


def _told(progress: Progress, *outcomes: AgentOutcome) -> RolloutReport:
    """Return the report, and leave its words for people."""
    progress.outcome = "; ".join(map(_words, outcomes))
    return RolloutReport(agents=outcomes)


def _words(one: AgentOutcome) -> str:
    version = f" ({one.image_version})" if one.image_version else ""
    reason = f": {one.reason}" if one.reason else ""
    return f"{one.agent_id} {one.outcome}{version}{reason}"


def _judge(report: RolloutReport) -> RolloutReport:
    """Return a report without failures; raises WorkFailed, which carries it, for one with."""
    failed = [f"{one.agent_id}: {one.reason}" for one in report.agents if one.outcome == "failed"]
    if failed:
        raise WorkFailed("; ".join(failed), report)
    return report
