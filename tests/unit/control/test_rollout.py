"""Updating all agents is one board, redrawn as each has its turn."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from choir_common.wire.operations import AgentOutcome
from choir_control.agents.operations.progress import OperationProgress, ProgressCard
from choir_control.agents.operations.service import OperationFailed, OperationService, OperationWork
from choir_control.agents.rollout.service import UpdateService
from choir_control.agents.rollout.update import AgentUpdater
from choir_control.configuration.current import ConfigService
from choir_control.images.builder import ProgressReporter

THREE = cast(
    ConfigService,
    SimpleNamespace(current=SimpleNamespace(config=SimpleNamespace(agents=["c", "a", "b"]))),
)


class TakesWork(OperationService):
    """Keeps the work it is to do, for the test to do."""

    def __init__(self) -> None:
        self.work: list[OperationWork] = []

    async def begin(self, *given: Any, **more: Any) -> str:
        assert more == {"has_card": True}
        self.work.append(given[3])
        return "op_1"


class Scripted(AgentUpdater):
    """Redeploys everybody but b, whose build fails at length."""

    def __init__(self) -> None:
        pass

    async def update_or_say(self, agent_id: str, report: ProgressReporter) -> AgentOutcome:
        report.progress("building", 0.5)
        report.output("a line of output")
        if agent_id == "b":
            return AgentOutcome(agent_id="b", outcome="failed", reason="x" * 1_000)
        return AgentOutcome(agent_id=agent_id, outcome="redeployed", image_version="0.2")


class RecordedCard(ProgressCard):
    """A card that records its texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def draw(self, text: str) -> None:
        self.texts.append(text)


async def test_the_board_tells_of_all_agents_what_is_done_to_whom_and_how_each_ended() -> None:
    operations, card = TakesWork(), RecordedCard()
    await UpdateService(THREE, Scripted(), operations).update_all()
    with pytest.raises(OperationFailed):
        await operations.work[0](OperationProgress(card))
    failed = f"⛔ b failed: {'x' * 190}"
    assert list(dict.fromkeys(card.texts)) == [
        "0 of 3\n⏳ a: starting\n· b\n· c",
        "0 of 3\n⏳ a: building\n· b\n· c",
        "1 of 3\n✅ a redeployed (0.2)\n⏳ b: starting\n· c",
        "1 of 3\n✅ a redeployed (0.2)\n⏳ b: building\n· c",
        f"2 of 3\n✅ a redeployed (0.2)\n{failed}\n⏳ c: starting",
        f"2 of 3\n✅ a redeployed (0.2)\n{failed}\n⏳ c: building",
        f"3 of 3\n✅ a redeployed (0.2)\n{failed}\n✅ c redeployed (0.2)",
    ]
