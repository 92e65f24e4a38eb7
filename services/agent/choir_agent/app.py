"""Composition root of the agent: build its objects, run the session, and shut it down in order.

Called by `__main__`. Objects are created without starting anything, started together in one task group, and
closed in reverse order.
"""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from choir_agent.arbiter.approval_client import ApprovalClient
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.arbiter.failure_hints import FailureHints
from choir_agent.arbiter.tool_policy import ToolPolicy
from choir_agent.budgets.token_budget import TokenBudget
from choir_agent.compaction.compaction_model import CompactionModel
from choir_agent.compaction.compactor import Compactor
from choir_agent.compaction.session_summary import SessionSummarizer, SessionSummary
from choir_agent.control_client.control_client import ControlClient, is_session_over, send_hello
from choir_agent.control_client.dynamic_settings import DynamicSettings
from choir_agent.control_client.signal_stream import follow_signals
from choir_agent.control_client.status_reporter import StatusReporter
from choir_agent.credentials.git_access import GitAccess
from choir_agent.lanes.core_job import CoreJobRunner
from choir_agent.lanes.core_job_manager import SESSION_LANE, CoreJobManager
from choir_agent.lanes.core_states import FINAL_STATES, CoreState
from choir_agent.lanes.edge_lane import EdgeLane
from choir_agent.lanes.lane_prompts import LanePrompts
from choir_agent.lanes.lane_status import lane_status
from choir_agent.lanes.model_caller import HistoryFormatCache, ModelCaller
from choir_agent.lanes.reminder_lookup import ReminderLookup
from choir_agent.lanes.session_shutdown import SessionShutdown, StopRequest
from choir_agent.lanes.signal_dispatcher import DecisionHandler, SignalDispatcher
from choir_agent.lanes.skill_steps import SkillStepper
from choir_agent.locks.lock_manager import LockManager
from choir_agent.log.committed_event import EventListeners
from choir_agent.log.log_replicator import LogReplicator
from choir_agent.log.session_log import SessionLog
from choir_agent.log.session_state import EDGE_LANE, JobState
from choir_agent.models.failure_messages import OutageTracker
from choir_agent.models.metered_model import MeteredModel
from choir_agent.models.model import model_name_for_lane
from choir_agent.models.openai_model import OpenAiModel
from choir_agent.models.retrying_model import RetryingModel
from choir_agent.models.tokenizer import Tokenizer
from choir_agent.prompt.history_format import HistoryFormat
from choir_agent.prompt.prompt_assembler import Prompt, PromptAssembler
from choir_agent.prompt.static_prompts import read_static_prompts
from choir_agent.settings import AgentProcessSettings
from choir_agent.skills.shapes import schema_violations
from choir_agent.tools.availability import unavailable_tools
from choir_agent.tools.staging import create_staging
from choir_agent.tools.workspace import Workspace
from choir_agent.toolset import Toolset, build_toolset
from choir_agent.working_memory.predecessor_session import load_carried_conversation
from choir_agent.working_memory.working_memory import SnapshotWriter, WorkingMemory
from choir_common.clock import SystemClock
from choir_common.errors import ChoirError
from choir_common.eventlog.chain import LogHead
from choir_common.identity_dir import SKILLS_DIR, TOOLS_DIR, hash_directory, read_version
from choir_common.telemetry import Redactor
from choir_common.wire.events import SessionResumed, SessionStarted
from choir_common.wire.rpc import (
    AgentStartParameters,
    HelloRequest,
    HelloResponse,
    StatusReport,
    TerminateRequest,
)

log = structlog.get_logger("choir.agent")

EXIT_OK = 0
EXIT_UNFLUSHED = 1
EXIT_FENCED = 3


async def run_agent(
    boot: AgentStartParameters, settings: AgentProcessSettings, redactor: Redactor
) -> int:
    """Run the agent described by `boot` until its session ends; return the process's exit code.

    Raises StartupError if the workspace, the tools or the skills are invalid, or if control is unreachable.
    """
    workspace = Workspace(Path(boot.workspace))
    create_staging(workspace)
    control = ControlClient(boot)
    memory, listeners = WorkingMemory(), EventListeners()
    # Working memory must also receive the restored tail, so it is registered before `restore`.
    listeners.add(memory.on_event)
    session_log = SessionLog(boot.session_id, SystemClock(), listeners.tell, redactor.redact)
    choir_dir = Path(boot.choir_dir)
    git = GitAccess(settings.tmp_dir, workspace.root)
    toolset = build_toolset(control, workspace, session_log, settings.tmp_dir, choir_dir, git)
    model = OpenAiModel()
    try:
        hello = await send_hello(control, _hello_request(boot), settings.hello_timeout_s)
        session_log.restore(hello.tail_events, LogHead(hello.head_rev, hello.head_hash))
        parts = StartupResources(
            boot, settings, redactor, control, hello, workspace, session_log, listeners, memory,
            toolset, model, git,
        )  # fmt: skip
        return await Agent(parts).run()
    except (ChoirError, ExceptionGroup) as error:
        if not is_session_over(error):
            raise
        log.warning("control says this agent is over; stopping", session=boot.session_id)
        return EXIT_FENCED
    finally:
        await git.close()
        await model.close()
        await control.close()
        workspace.close()


def _hello_request(boot: AgentStartParameters) -> HelloRequest:
    """Return the INIT_HELLO request.

    The version and the manifest hashes are those of /choir itself, so that control can detect an image that
    differs from the boot line.
    """
    choir_dir = Path(boot.choir_dir)
    version = read_version(choir_dir)
    return HelloRequest(
        agent_id=boot.agent_id,
        session_id=boot.session_id,
        epoch=boot.epoch,
        image_version=version.image_version if version else boot.image_version,
        tool_manifest_hash=hash_directory(choir_dir / TOOLS_DIR),
        skill_manifest_hash=hash_directory(choir_dir / SKILLS_DIR),
    )


@dataclass(frozen=True, slots=True)
class StartupResources:
    """The objects that exist before control has replied to INIT_HELLO, and that reply."""

    boot: AgentStartParameters
    settings: AgentProcessSettings
    redactor: Redactor
    control: ControlClient
    hello: HelloResponse
    workspace: Workspace
    session_log: SessionLog
    listeners: EventListeners
    memory: WorkingMemory
    toolset: Toolset
    model: OpenAiModel
    git: GitAccess


class Agent:
    """A running session: builds and connects all objects, and runs them."""

    def __init__(self, parts: StartupResources) -> None:
        self._boot, self._settings, self._hello = parts.boot, parts.settings, parts.hello
        self._control, self._clock = parts.control, SystemClock()
        self._outages = OutageTracker(self._clock, parts.redactor)
        self._dynamic = DynamicSettings(
            parts.control, parts.redactor, parts.hello.config_version, parts.hello.config,
            parts.git.apply_settings,
        )  # fmt: skip
        self._replication = LogReplicator(
            parts.control,
            parts.session_log,
            self._clock,
            parts.boot.agent_id,
            parts.boot.epoch,
            lambda: self._dynamic.version,
            self._dynamic.heartbeat_interval_s,
            self._dynamic.mark_stale,
        )
        self._status = StatusReporter(parts.control, self._lane_status)
        self._approvals = ApprovalClient(parts.control)
        self._arbiter = Arbiter(
            parts.session_log,
            self._replication,
            ToolPolicy(parts.toolset.registry, parts.toolset.skills),
            parts.workspace,
            LockManager(),
            self._approvals,
            self._dynamic.current,
            SnapshotWriter(parts.memory),
            FailureHints(parts.control),
        )
        self._build_lanes(parts)
        self._ending = SessionShutdown(
            self._arbiter,
            self._replication,
            self._edge,
            self._summarize_session,
            parts.settings.flush_grace_s,
        )
        decisions = DecisionHandler(self._arbiter, self._approvals)
        self._receiver = SignalDispatcher(
            self._arbiter,
            self._edge,
            self._jobs,
            decisions,
            self._dynamic.mark_stale,
            self._request_stop,
        )
        # Registered after the restore: these react to new events only.
        for reacts in (self._jobs, self._edge, decisions, self._compactor):
            parts.listeners.add(reacts.on_event)

    def _build_lanes(self, parts: StartupResources) -> None:
        registry, skills = parts.toolset.registry, parts.toolset.skills
        missing = unavailable_tools(registry.manifests(), parts.hello.config)
        identity = read_static_prompts(Path(parts.boot.choir_dir), skills.summaries(missing))
        assembler = PromptAssembler(parts.memory, identity, registry.model_name)
        prompts = LanePrompts(
            lambda: self._arbiter.state, assembler, registry, skills, self._dynamic.current
        )
        purse = TokenBudget(
            lambda: self._arbiter.state, lambda: self._dynamic.current().settings.budgets
        )
        count = Tokenizer(parts.git.own_children).count
        meter = parts.memory.token_estimator
        metered = MeteredModel(
            RetryingModel(parts.model, self._dynamic.current), purse, meter, count
        )
        # No RetryingModel: compaction has its own backoff, and shutdown must not wait for a model.
        asker = CompactionModel(
            MeteredModel(parts.model, purse, meter, count), self._dynamic.current
        )
        self._compactor = Compactor(
            self._arbiter, parts.memory, assembler, asker, self._dynamic.current
        )
        self._summarizer = SessionSummarizer(parts.memory, asker, self._dynamic.current)
        steps = SkillStepper(self._arbiter, skills, self._dynamic.current)

        histories = HistoryFormatCache()

        def thinker(lane: str, make_prompt: Callable[[HistoryFormat], Prompt]) -> ModelCaller:
            return ModelCaller(
                lane, self._arbiter, metered, make_prompt, registry.canonical, self._dynamic.current,
                lambda: self._compactor.shrink(lane), histories, self._outages,
            )  # fmt: skip

        def make_job(job: JobState) -> CoreJobRunner:
            thinks = thinker(job.lane, lambda history: prompts.core_prompt(job, history))
            return CoreJobRunner(
                job, self._arbiter, thinks, steps, self._dynamic.current, self._clock, schema_violations,
                self._note_job,
            )  # fmt: skip

        self._jobs = CoreJobManager(self._arbiter, make_job)
        self._edge = EdgeLane(
            self._arbiter,
            thinker(EDGE_LANE, prompts.edge_prompt),
            self._jobs,
            steps,
            ReminderLookup(
                parts.control, self._arbiter, parts.memory, self._dynamic.current, self._clock
            ),
            self._dynamic.current,
            self._clock,
            lambda state: self._status.record_state(EDGE_LANE, state),
        )

    async def run(self) -> int:
        """Run the session until a stop is requested, then shut down in order; return the exit code.

        Raises Fenced or Unauthorized (in an exception group) when control ends the session.
        """
        self._open_session()
        self._listen_to_sigterm()
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._replication.run()),
                tasks.create_task(self._dynamic.run()),
                tasks.create_task(self._status.run()),
                tasks.create_task(self._follow()),
                tasks.create_task(self._compactor.run()),
            ]
            lane = tasks.create_task(self._run_edge_lane())
            reason, flushed = await self._ending.end(lane)
            # Cancel these before TERMINATE, which ends our lease: a later heartbeat would be answered
            # as fenced.
            for task in background:
                task.cancel()
        # Without a flush control must handle this as a crash, so TERMINATE is not sent.
        if not flushed:
            return EXIT_UNFLUSHED
        await self._send_terminate(reason)
        return EXIT_OK

    async def _run_edge_lane(self) -> None:
        self._status.record_state(EDGE_LANE, self._edge.state)
        # Heartbeats are running already, so a slow response here does not look like a crash.
        await self._dynamic.load_secrets()
        await self._edge.run()

    def _open_session(self) -> None:
        structlog.contextvars.bind_contextvars(session=self._boot.session_id)
        inherited = load_carried_conversation(self._hello.snapshot, self._hello.continues)
        if self._hello.head_rev == 0:
            self._arbiter.commit(
                SESSION_LANE,
                SessionStarted(
                    agent_id=self._boot.agent_id,
                    epoch=self._hello.epoch,
                    continues=self._hello.continues,
                    image_version=self._boot.image_version,
                    seed=inherited.seed,
                ),
            )
        # A crash may have interrupted the copying: continue after the last durable copy.
        for carried in inherited.carried[self._arbiter.state.carried :]:
            self._arbiter.commit(EDGE_LANE, carried, more_follows=True)
        if self._hello.head_rev:
            self._arbiter.commit(SESSION_LANE, SessionResumed(epoch=self._hello.epoch))
        log.info("session open", status=self._hello.status, epoch=self._hello.epoch)

    def _listen_to_sigterm(self) -> None:
        # The runtime kills the process soon after SIGTERM, so there is no time for a summary.
        request = StopRequest("SIGTERM", self._settings.sigterm_grace_s, with_summary=False)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._ending.ask, request)

    def _request_stop(self, reason: str) -> None:
        self._ending.ask(StopRequest(reason, self._settings.stop_grace_s))

    async def _follow(self) -> None:
        async for entry in follow_signals(self._control):
            await self._receiver.receive(entry)

    async def _summarize_session(self) -> SessionSummary | None:
        return await self._summarizer.summarize(self._arbiter.state)

    def _note_job(self, lane: str, state: CoreState) -> None:
        self._status.record_state(lane, state, ended=state in FINAL_STATES)

    def _lane_status(self, lane: str, state: str) -> StatusReport:
        settings = self._dynamic.current().settings
        failure = self._outages.of(model_name_for_lane(settings, lane))
        now = self._clock.now()
        return lane_status(lane, state, self._arbiter.state, settings.budgets, now, failure)

    async def _send_terminate(self, reason: str) -> None:
        try:
            async with asyncio.timeout(self._settings.flush_grace_s):
                await self._control.terminate(TerminateRequest(reason=reason))
        except (ChoirError, TimeoutError) as error:
            log.warning("control did not take our goodbye", reason=str(error))
