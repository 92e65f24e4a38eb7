"""Start of builds and updates as operations. Called by the operator API and by chat commands."""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.wire.model import Wire
from choir_common.wire.operations import AgentOutcome, RolloutReport
from choir_control.configuration.current import Configuration
from choir_control.operations.card import BADLY, GOES_ON, WELL
from choir_control.operations.progress import Progress
from choir_control.operations.run import Operations, WorkFailed
from choir_control.operations.store import Asker
from choir_control.rollout.update import Updater

MOST_OF_ONE = 200


class Rollout:
    """Service that starts builds and updates; the conversation `asker` is notified of the end."""

    def __init__(
        self, configuration: Configuration, updater: Updater, operations: Operations
    ) -> None:
        self._configuration = configuration
        self._updater = updater
        self._operations = operations

    async def build(self, agent_id: str, asker: Asker | None = None) -> str:
        """Start a build; raises NotFound, and Conflict while the agent is built or updated."""
        self._configuration.current.agent(agent_id)

        async def work(progress: Progress) -> Wire:
            return _told(progress, await self._updater.build(agent_id, progress))

        alone = _only(agent_id)
        return await self._operations.begin("agent build", agent_id, alone, work, asker)

    async def update(self, agent_id: str, asker: Asker | None = None) -> str:
        """Start an update; raises NotFound, and Conflict while the agent is built or updated."""
        self._configuration.current.agent(agent_id)

        async def work(progress: Progress) -> Wire:
            return _judge(_told(progress, await self._updater.update(agent_id, progress)))

        alone = _only(agent_id)
        return await self._operations.begin("agent update", agent_id, alone, work, asker)

    async def update_all(self, asker: Asker | None = None) -> str:
        """Start the update of every agent, one after the other; `asker` gets a progress card."""
        agents = sorted(self._configuration.current.config.agents)

        async def work(progress: Progress) -> Wire:
            outcomes: list[AgentOutcome] = []
            for agent_id in agents:
                part = _Part(progress, agents, outcomes)
                part.step("its turn")
                outcomes.append(await self._updater.update_or_say(agent_id, part))
                progress.line(f"{len(outcomes)}/{len(agents)} {_words(outcomes[-1])}")
            progress.show(_board(agents, outcomes))
            return _judge(_told(progress, *outcomes))

        everyone = frozenset(f"agent {agent_id}" for agent_id in agents)
        return await self._operations.begin(
            "agent update-all", "all", everyone, work, asker, has_card=True
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """Progress of the current agent among several."""

    whole: Progress
    agents: Sequence[str]
    outcomes: Sequence[AgentOutcome]
    """Outcomes of the agents before it."""

    def step(self, text: str, share: float | None = None) -> None:
        number, of = len(self.outcomes), len(self.agents)
        done = None if share is None else (number + share) / of
        self.whole.step(f"{self.agents[number]} ({number + 1}/{of}): {text}", done)
        self.whole.show(_board(self.agents, self.outcomes, text))

    def line(self, text: str) -> None:
        self.whole.line(f"{self.agents[len(self.outcomes)]}: {text}")


def _board(agents: Sequence[str], outcomes: Sequence[AgentOutcome], now: str = "") -> str:
    """Return the card's text, one line per agent; `now` is the step of the first one without an outcome."""
    lines = [f"{len(outcomes)} of {len(agents)}"]
    for one in outcomes:
        lines.append(f"{BADLY if one.outcome == 'failed' else WELL} {_words(one)[:MOST_OF_ONE]}")
    for agent_id in agents[len(outcomes) :]:
        what, now = now, ""
        lines.append(f"{GOES_ON} {agent_id}: {what[:MOST_OF_ONE]}" if what else f"· {agent_id}")
    return "\n".join(lines)


def _only(agent_id: str) -> frozenset[str]:
    return frozenset({f"agent {agent_id}"})


def _told(progress: Progress, *outcomes: AgentOutcome) -> RolloutReport:
    """Return the report, and set the operation's summary text for users."""
    progress.outcome = "; ".join(map(_words, outcomes))
    return RolloutReport(agents=outcomes)


def _words(one: AgentOutcome) -> str:
    version = f" ({one.image_version})" if one.image_version else ""
    reason = f": {one.reason}" if one.reason else ""
    return f"{one.agent_id} {one.outcome}{version}{reason}"


def _judge(report: RolloutReport) -> RolloutReport:
    """Return a report without failures; raise WorkFailed with the report otherwise."""
    failed = [f"{one.agent_id}: {one.reason}" for one in report.agents if one.outcome == "failed"]
    if failed:
        raise WorkFailed("; ".join(failed), report)
    return report
