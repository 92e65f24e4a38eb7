"""Wiring of approvals: the intake of requests, their decisions, and the worker that applies them."""

from collections.abc import Mapping
from pathlib import Path

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_control.agents.rollout.service import AgentRedeployer
from choir_control.approvals.buttons import ApprovalButtons
from choir_control.approvals.grant_store import GrantStore
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
from choir_control.approvals.service import ApprovalExpiry, ApprovalService
from choir_control.approvals.store import ApprovalStore
from choir_control.approvals.tool_pins import ToolPinBasis
from choir_control.approvals.withdrawal import ApprovalWithdrawal
from choir_control.configuration.current import ConfigService
from choir_control.images.repositories.credentials import GitCredentials
from choir_control.log.eventlog.call_results import CallResultQueue
from choir_control.log.metrics.meter import ControlMetrics
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier, OutboxRescanner


class ProposalServices:
    """The intake and the worker of proposals, with their shared clones."""

    def __init__(
        self,
        *,
        home: Path,
        config_file: Path,
        environment: Mapping[str, str],
        database: Database,
        configuration: ConfigService,
        approvals: ApprovalStore,
        clock: Clock,
        signal_locks: SignalLocks,
        notifier: Notifier,
        outbox: OutboxRescanner,
        config_applier: ConfigApplier,
        redeployer: AgentRedeployer,
        credentials: GitCredentials | None = None,
    ) -> None:
        """`environment` is control's own; git receives a few allow-listed variables of it."""
        self._clones = CloneCache(
            home,
            configuration=configuration,
            environment=environment,
            clock=clock,
            keys=credentials,
        )
        self._effects = EffectStore(database)
        proposal_types: dict[str, ProposalType] = {
            "config_change": ConfigProposal(configuration, ConfigFile(config_file), config_applier),
            "skill": FileProposal(self._clones, make_skill_files),
            "tool": FileProposal(self._clones, make_tool_files),
            "repo_change": RepoProposal(self._clones),
        }
        self.intake = ApprovalIntake(
            approvals,
            proposal_types,
            outbox,
            tool_pins=ToolPinBasis(database, configuration),
            configuration=configuration,
        )
        self.worker = ProposalWorker(
            approvals=approvals,
            effects=self._effects,
            proposal_types=proposal_types,
            redeployer=redeployer,
            signal_locks=signal_locks,
            notifier=notifier,
            outbox=outbox,
        )

    async def remove_idle_clones(self) -> None:
        """Remove unused clones; called periodically."""
        # between storing a plan and pushing its commit, the clone has the only copy of that commit
        if not await self._effects.list_unfinished():
            await self._clones.remove_idle()


class ApprovalServices:
    """The decisions on approval requests: by operators, by buttons and by expiry."""

    def __init__(
        self,
        store: ApprovalStore,
        *,
        grants: GrantStore,
        proposals: ProposalServices,
        configuration: ConfigService,
        clock: Clock,
        signal_locks: SignalLocks,
        notifier: Notifier,
        outbox: OutboxRescanner,
        metrics: ControlMetrics,
        call_results: CallResultQueue,
    ) -> None:
        self.store = store
        self.grants = grants
        self.proposals = proposals
        self.service = ApprovalService(
            store,
            signal_locks=signal_locks,
            notifier=notifier,
            outbox=outbox,
            proposals=proposals.worker,
        )
        self.expiry = ApprovalExpiry(
            store, approvals=self.service, configuration=configuration, clock=clock
        )
        self.withdrawal = ApprovalWithdrawal(store, approvals=self.service, results=call_results)
        self.buttons = ApprovalButtons(
            store, approvals=self.service, configuration=configuration, metrics=metrics
        )
