"""Wiring of this package. Called by `app`."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_control.agents.rollout.service import AgentRedeployer
from choir_control.approvals.proposals.clone_cache import CloneCache
from choir_control.approvals.proposals.config_proposal import (
    ConfigApplier,
    ConfigFile,
    ConfigProposal,
)
from choir_control.approvals.proposals.effect_store import EffectStore
from choir_control.approvals.proposals.file_proposal import (
    FileProposal,
    make_skill_files,
    make_tool_files,
)
from choir_control.approvals.proposals.proposal_type import ApprovalIntake, ProposalType
from choir_control.approvals.proposals.repo_proposal import RepoProposal
from choir_control.approvals.proposals.worker import ProposalWorker
from choir_control.approvals.store import Approval, ApprovalStore
from choir_control.configuration.current import ConfigService
from choir_control.images.repositories.credentials import GitCredentials

IMAGE_CHANGING_TYPES = ("skill", "repo_change")


@dataclass(frozen=True, slots=True)
class ProposalDependencies:
    """Dependencies of this package."""

    home: Path
    config_file: Path
    environment: Mapping[str, str]
    """Control's own environment; git receives a few allow-listed variables of it."""
    database: Database
    configuration: ConfigService
    approvals: ApprovalStore
    clock: Clock
    conversation_locks: Callable[[str], asyncio.Lock]
    notify_session: Callable[[str], None]
    notify_conversation: Callable[[str], None]
    """Called with a conversation (DM) that has a new message."""
    config_applier: ConfigApplier
    redeployer: AgentRedeployer
    credentials: GitCredentials | None = None
    """Credentials of the agents' private repositories."""


class ProposalServices:
    """The intake and the worker of proposals, with their shared clones."""

    def __init__(self, around: ProposalDependencies) -> None:
        self._benches = CloneCache(
            around.home, around.configuration, around.environment, around.clock, around.credentials
        )
        self._effects = EffectStore(around.database)
        carriers = _proposal_types(around, self._benches)
        self.intake = ApprovalIntake(around.approvals, carriers, around.notify_conversation)

        async def settle(asked: Approval) -> str:
            renewed = asked.request_type in IMAGE_CHANGING_TYPES
            return await around.redeployer.redeploy(asked.agent_id) if renewed else ""

        self.worker = ProposalWorker(
            around.approvals,
            self._effects,
            carriers,
            around.conversation_locks,
            around.notify_session,
            around.notify_conversation,
            settle,
        )

    async def remove_idle_clones(self) -> None:
        """Remove unused clones; called periodically."""
        # between storing a plan and pushing its commit, the clone has the only copy of that commit
        if not await self._effects.list_unfinished():
            await self._benches.remove_idle()


def _proposal_types(around: ProposalDependencies, benches: CloneCache) -> dict[str, ProposalType]:
    return {
        "config_change": ConfigProposal(
            around.configuration, ConfigFile(around.config_file), around.config_applier
        ),
        "skill": FileProposal(benches, make_skill_files),
        "tool": FileProposal(benches, make_tool_files),
        "repo_change": RepoProposal(benches),
    }
