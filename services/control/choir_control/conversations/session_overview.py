"""Overview of agents and their state, for the operator API."""

from collections.abc import Mapping

from choir_common.wire.messages import AgentState
from choir_common.wire.operator import AgentView
from choir_control.agents.runtimes.port import AgentRuntime, RunningAgent
from choir_control.agents.sessions.config_propagation import ConfigVersionTracker
from choir_control.agents.sessions.conversation_reconciler import ConversationReconciler
from choir_control.agents.sessions.liveness import LivenessTracker
from choir_control.agents.sessions.record import LIVE_STATUSES, RESUMABLE_STATUSES, SessionRow
from choir_control.agents.sessions.reports import LaneStatusRegistry
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.conversations.inbox.store import InboxStore
from choir_control.log.leases.conversations import ConversationStore
from choir_control.log.leases.dm_memory import (
    DmMemorySettings,
    DmMemoryStore,
    effective_recall,
)

_STATES: dict[str, AgentState] = {
    "starting": "starting",
    "active": "running",
    "stopping": "running",
    "crashed": "crashed",
    "abandoned": "crashed",
    "stopped": "stopped",
    "suspended": "stopped",
}


class AgentOverview:
    """Read-only view of the configured agents and their sessions."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        sessions: SessionStore,
        inbox: InboxStore,
        lane_statuses: LaneStatusRegistry,
        runtime: AgentRuntime,
        liveness: LivenessTracker,
        config_versions: ConfigVersionTracker,
        memory_settings: DmMemoryStore,
        conversations: ConversationStore,
        reconciler: ConversationReconciler,
    ) -> None:
        self._configuration = configuration
        self._sessions = sessions
        self._inbox = inbox
        self._lane_statuses = lane_statuses
        self._runtime = runtime
        self._liveness = liveness
        self._config_versions = config_versions
        self._memory_settings = memory_settings
        self._conversations = conversations
        self._reconciler = reconciler

    async def require_known_agent(self, agent_id: str) -> None:
        """Raise NotFound unless the agent is configured or still running."""
        snapshot = self._configuration.current
        if agent_id not in snapshot.config.agents and not await self._sessions.find_live(agent_id):
            snapshot.agent(agent_id)

    async def live_of(self, agent_id: str) -> SessionRow | None:
        """Return the agent's current session, or None."""
        return await self._sessions.find_live(agent_id)

    async def conversations_of(self, session: SessionRow) -> tuple[str, ...]:
        """Return the conversations that a session serves, the home conversation first."""
        further = await self._conversations.list_served([session.session_id])
        return (session.bindings.dm, *further.get(session.session_id, ()))

    def job_tools_of(self, session: SessionRow) -> tuple[str, ...]:
        """Return the tools that the core jobs of a session may use; empty if they are not known yet."""
        return self._lane_statuses.job_tools_of(session.agent_id, session.session_id)

    async def all(self) -> list[AgentView]:
        """Return all agents that are configured or running, sorted by name."""
        snapshot = self._configuration.current
        live = {row.agent_id: row for row in await self._sessions.list_live()}
        running_agents = {agent.session_id: agent for agent in await self._runtime.list_running()}
        waiting_counts = await self._inbox.count_waiting()
        memory = await self._memory_settings.read_all()
        further = await self._conversations.list_served([row.session_id for row in live.values()])
        views = []
        for agent_id in sorted(snapshot.config.agents.keys() | live.keys()):
            row = live.get(agent_id) or await self._last(agent_id)
            view = self._view(snapshot, agent_id, row, running_agents, waiting_counts)
            view = self._with_conversations(view, further, waiting_counts)
            views.append(_with_memory(view, snapshot, row, memory))
        return views

    async def one(self, agent_id: str) -> AgentView:
        """Return one agent; raises NotFound if it is neither configured nor has any session."""
        snapshot = self._configuration.current
        row = await self._sessions.find_live(agent_id) or await self._last(agent_id)
        if row is None:
            snapshot.agent(agent_id)
        running_agents = {agent.session_id: agent for agent in await self._runtime.list_running()}
        waiting_counts = await self._inbox.count_waiting()
        view = self._view(snapshot, agent_id, row, running_agents, waiting_counts)
        if view.session_id is not None:
            further = await self._conversations.list_served([view.session_id])
            view = self._with_conversations(view, further, waiting_counts)
        return _with_memory(view, snapshot, row, await self._memory_settings.read_all())

    def _with_conversations(
        self,
        view: AgentView,
        further: Mapping[str, tuple[str, ...]],
        waiting_counts: Mapping[str, int],
    ) -> AgentView:
        """Return the view of a running agent with its conversations and what waits in all of them."""
        if view.session_id is None or view.bindings is None:
            return view
        dms = (view.bindings.dm, *further.get(view.session_id, ()))
        update = {
            "conversations": dms,
            "conversation_faults": self._reconciler.faults_of(view.agent_id),
            "queued_messages": sum(waiting_counts.get(dm, 0) for dm in dms),
        }
        return view.model_copy(update=update)

    async def _last(self, agent_id: str) -> SessionRow | None:
        rows = await self._sessions.list_page(agent_id, None, 1)
        return rows[0] if rows else None

    def _view(
        self,
        snapshot: ConfigSnapshot,
        agent_id: str,
        row: SessionRow | None,
        running_agents: dict[str, RunningAgent],
        waiting_counts: dict[str, int],
    ) -> AgentView:
        has_ended = row is None or row.status not in LIVE_STATUSES
        agent_config = snapshot.config.agents.get(agent_id)
        # an agent that left the configuration has no defaults, only its session's bindings
        used_bindings = row.bindings if row and (not has_ended or agent_config is None) else None
        bindings = used_bindings or snapshot.agent(agent_id).defaults
        process = running_agents.get(row.session_id) if row else None
        model = snapshot.config.models.get(bindings.llm)
        return AgentView(
            agent_id=agent_id,
            state=_STATES[row.status] if row else "stopped",
            session_id=row.session_id if row and not has_ended else None,
            epoch=row.epoch if row and not has_ended else None,
            bindings=snapshot.complete_bindings(agent_id, row.bindings)
            if row and not has_ended
            else None,
            model=model.model if model else None,
            pid=process.pid if process else None,
            started_at=row.started_at if row and not has_ended else None,
            last_heartbeat_at=row.last_heartbeat_at if row and not has_ended else None,
            suspect=bool(row and not has_ended and self._liveness.is_suspect(row.session_id)),
            lanes=self._lane_statuses.of(agent_id, row.session_id) if row and not has_ended else (),
            queued_messages=waiting_counts.get(bindings.dm, 0),
            config_version=self._config_versions.version_of(row) if row and not has_ended else None,
        )


def _with_memory(
    view: AgentView,
    snapshot: ConfigSnapshot,
    row: SessionRow | None,
    memory: Mapping[str, DmMemorySettings],
) -> AgentView:
    """Return the view with the memory mode and recall of the agent's conversation."""
    agent = snapshot.config.agents.get(view.agent_id)
    is_unfinished = row is not None and row.status in (*LIVE_STATUSES, *RESUMABLE_STATUSES)
    if row is not None and (is_unfinished or agent is None):
        dm = row.bindings.dm
    else:
        dm = snapshot.agent(view.agent_id).defaults.dm
    settings = memory.get(dm, DmMemorySettings())
    mode = row.memory_mode if row is not None and is_unfinished else settings.mode
    recall = effective_recall(mode, settings.recall, agent)
    return view.model_copy(update={"memory_mode": mode, "recall": recall})
