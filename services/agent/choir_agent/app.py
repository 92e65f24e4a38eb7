"""Composition root of the agent: build its objects, run the session, and shut it down in order.

Objects are created without starting anything, started together in one task group, and
closed in reverse order.
"""

import asyncio
import contextlib
import signal
from pathlib import Path

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.arbiter.call_execution import FailureHints
from choir_agent.arbiter.tool_policy import ToolPolicy
from choir_agent.budgets.limits import TokenBudget
from choir_agent.budgets.money import MoneyReservations
from choir_agent.budgets.spending import SpendingReader
from choir_agent.compaction.compaction_model import CompactionModel
from choir_agent.compaction.compactor import Compactor
from choir_agent.compaction.session_summary import SessionSummarizer
from choir_agent.control_client.control_client import ControlClient, is_session_over, send_hello
from choir_agent.control_client.dynamic_settings import DynamicSettings, SettingsListeners
from choir_agent.control_client.hello_request import build_hello_request
from choir_agent.control_client.signal_stream import SignalStream
from choir_agent.control_client.status_reporter import StatusReporter
from choir_agent.credentials.git_access import GitAccess
from choir_agent.egress.relay import EgressRelay
from choir_agent.egress.route import EgressAddress
from choir_agent.harnesses.harnesses import HarnessJobs
from choir_agent.lanes.attachment_reader import AttachmentReader
from choir_agent.lanes.conversation_lanes import ConversationLanes, EdgeLaneFactory
from choir_agent.lanes.core_job import CoreJobFactory
from choir_agent.lanes.core_job_manager import SESSION_LANE, CoreJobManager
from choir_agent.lanes.draft_reporter import DraftReporter
from choir_agent.lanes.lane_prompts import LanePrompts
from choir_agent.lanes.lane_status import LaneStatusDescriber
from choir_agent.lanes.model_caller import ModelCaller
from choir_agent.lanes.picture_describer import PictureDescriber
from choir_agent.lanes.reminder_lookup import ReminderLookup
from choir_agent.lanes.session_shutdown import SessionShutdown
from choir_agent.lanes.signal_dispatcher import DecisionHandler, SignalDispatcher
from choir_agent.lanes.skill_steps import SkillStepper
from choir_agent.lanes.voice_answers import VoiceAnswers
from choir_agent.lanes.voice_notes import VoiceNotes
from choir_agent.locks.lock_manager import LockManager
from choir_agent.log.committed_event import EventListeners
from choir_agent.log.log_replicator import LogReplicator
from choir_agent.log.session_log import SessionLog
from choir_agent.mcp_client.sampling_model import SamplingModel
from choir_agent.models.failure_messages import OutageTracker
from choir_agent.models.model_wrappers import MeteredModel
from choir_agent.models.picture_model import PictureModel
from choir_agent.models.tokenizer import Tokenizer
from choir_agent.prompt.prompt_assembler import PromptAssembler
from choir_agent.prompt.skill_folder_list import SkillFolderList
from choir_agent.prompt.static_prompts import read_prompt_parts
from choir_agent.settings import AgentProcessSettings
from choir_agent.tools.availability import unavailable_tools
from choir_agent.tools.speech.synthesis import SpeechSynthesizer
from choir_agent.tools.speech.transcription import AudioTranscriber
from choir_agent.tools.workspace import Workspace, create_staging
from choir_agent.toolset import Toolset, build_toolset
from choir_agent.working_memory.predecessor_session import load_carried_conversation
from choir_agent.working_memory.working_memory import SnapshotWriter, WorkingMemory
from choir_common.clock import SystemClock
from choir_common.errors import ChoirError
from choir_common.eventlog.chain import LogHead
from choir_common.telemetry import Redactor
from choir_common.wire.events import MemoryModeChanged, SessionResumed, SessionStarted
from choir_common.wire.memory_modes import DEFAULT_MODE, INCOGNITO
from choir_common.wire.rpc import (
    AgentStartParameters,
    HelloResponse,
    TerminateRequest,
)
from choir_models.context_windows import ContextWindows
from choir_models.fallback import CoolDowns
from choir_models.registry import ModelRegistry

log = structlog.get_logger("choir.agent")

EXIT_OK = 0
EXIT_UNFLUSHED = 1
EXIT_FENCED = 3


async def run_agent(
    boot: AgentStartParameters,
    settings: AgentProcessSettings,
    redactor: Redactor,
    egress: EgressRelay | None = None,
) -> int:
    """Run the agent described by `boot` until its session ends; return the process's exit code.

    `egress` leads to the network, unless the agent connects without a proxy. Raises StartupError if the
    workspace, the tools or the skills are invalid, or if control is unreachable.
    """
    async with egress.serving() if egress else contextlib.nullcontext():
        return await _run_session(boot, settings, redactor, egress.route if egress else None)


async def _run_session(
    boot: AgentStartParameters,
    settings: AgentProcessSettings,
    redactor: Redactor,
    egress: EgressAddress | None,
) -> int:
    workspace = _open_workspace(Path(boot.workspace))
    control, memory = ControlClient(boot), WorkingMemory()
    # Working memory must also receive the restored tail, so it listens before `restore`.
    listeners = EventListeners(memory)
    clock, git = SystemClock(), GitAccess(settings.tmp_dir, workspace.root, proxied=bool(egress))
    session_log = SessionLog(boot.session_id, clock=clock, listener=listeners, redactor=redactor)
    toolset = build_toolset(
        control=control,
        workspace=workspace,
        session_log=session_log,
        settings=settings,
        choir_dir=Path(boot.choir_dir),
        git=git,
        egress=egress,
    )
    model = PictureModel(ModelRegistry(toolset.key_proxy), toolset.files)
    try:
        hello = await send_hello(control, build_hello_request(boot), settings.hello_timeout_s)
        session_log.restore(hello.tail_events, LogHead(hello.head_rev, hello.head_hash))
        return await Agent(
            boot=boot,
            settings=settings,
            hello=hello,
            control=control,
            redactor=redactor,
            workspace=workspace,
            session_log=session_log,
            listeners=listeners,
            memory=memory,
            toolset=toolset,
            model=model,
            git=git,
        ).run()
    except (ChoirError, ExceptionGroup) as error:
        if not is_session_over(error):
            raise
        log.warning("control ended this session; stopping", session=boot.session_id)
        return EXIT_FENCED
    finally:
        await git.close()
        await model.close()
        await control.close()
        workspace.close()


def _open_workspace(path: Path) -> Workspace:
    workspace = Workspace(path)
    create_staging(workspace)
    return workspace


class Agent:
    """A running session: builds and connects all objects, and runs them."""

    def __init__(
        self,
        *,
        boot: AgentStartParameters,
        settings: AgentProcessSettings,
        hello: HelloResponse,
        control: ControlClient,
        redactor: Redactor,
        workspace: Workspace,
        session_log: SessionLog,
        listeners: EventListeners,
        memory: WorkingMemory,
        toolset: Toolset,
        model: PictureModel,
        git: GitAccess,
    ) -> None:
        self._boot, self._settings, self._hello, self._control = boot, settings, hello, control
        self._toolset, self._clock = toolset, SystemClock()
        self._session_log, self._memory = session_log, memory
        self._outages = OutageTracker(self._clock, redactor)
        self._cool_downs = CoolDowns(self._clock)
        self._assembler, self._skill_list = self._build_assembler()
        self._dynamic = self._build_settings(redactor, git)
        workspace.quota.follow(self._dynamic)
        self._replication = LogReplicator(
            control=control,
            session_log=session_log,
            settings=self._dynamic,
            clock=self._clock,
            agent_id=boot.agent_id,
            epoch=boot.epoch,
        )
        self._money = MoneyReservations(
            control=control,
            settings=self._dynamic,
            session=session_log,
            replication=self._replication,
        )
        self._drafts = DraftReporter(control, redactor, self._dynamic)
        self._approvals, self._signals = toolset.approvals, SignalStream(control)
        self._locks = LockManager()
        self._arbiter, self._status = self._build_arbiter(workspace), self._build_status_reporter()
        self._locks.follow_waits(self._status)
        self._build_lanes(model, git, workspace)
        self._shutdown = self._build_shutdown()
        decisions = DecisionHandler(self._arbiter, self._approvals)
        self._dispatcher = self._build_dispatcher(decisions)
        # Added after the restore: these react to new events only.
        listeners.add(self._jobs, self._lanes, decisions, self._compactor)

    def _build_settings(self, redactor: Redactor, git: GitAccess) -> DynamicSettings:
        return DynamicSettings(
            control=self._control,
            redactor=redactor,
            listener=SettingsListeners(
                git, self._toolset.mcp_servers, self._toolset.harnesses, self._skill_list
            ),
            windows=ContextWindows(self._clock, self._toolset.key_proxy),
            version=self._hello.config_version,
            settings=self._hello.config,
        )

    def _build_shutdown(self) -> SessionShutdown:
        return SessionShutdown(
            arbiter=self._arbiter,
            replication=self._replication,
            lanes=self._lanes,
            summarizer=self._summarizer,
            settings=self._settings,
        )

    def _build_arbiter(self, workspace: Workspace) -> Arbiter:
        return Arbiter(
            session_log=self._session_log,
            replication=self._replication,
            policy=ToolPolicy(self._toolset.registry, self._toolset.skills),
            workspace=workspace,
            locks=self._locks,
            approvals=self._approvals,
            settings=self._dynamic,
            snapshots=SnapshotWriter(self._memory),
            failure_hints=FailureHints(self._control),
            spending=SpendingReader(self._control),
            money=self._money,
            hosts=self._memory,
            connections=self._toolset.connections,
        )

    def _build_status_reporter(self) -> StatusReporter:
        describer = LaneStatusDescriber(
            session=self._session_log,
            settings=self._dynamic,
            outages=self._outages,
            locks=self._locks,
            mcp_servers=self._toolset.mcp_servers,
            harnesses=self._toolset.harnesses,
            tools=self._toolset.registry,
            clock=self._clock,
        )
        reporter = StatusReporter(self._control, describer)
        self._signals.report_to(reporter)
        self._toolset.mcp_servers.report_to(reporter)
        self._toolset.harnesses.report_to(reporter)
        return reporter

    def _build_dispatcher(self, decisions: DecisionHandler) -> SignalDispatcher:
        return SignalDispatcher(
            arbiter=self._arbiter,
            lanes=self._lanes,
            jobs=self._jobs,
            decisions=decisions,
            settings=self._dynamic,
            shutdown=self._shutdown,
            stream=self._signals,
        )

    def _build_metered(self, model: PictureModel, git: GitAccess) -> MeteredModel:
        return MeteredModel(
            model,
            budget=TokenBudget(self._session_log, self._dynamic),
            money=self._money,
            estimator=self._memory.token_estimator,
            counter=Tokenizer(),
            committer=self._arbiter,
            clock=self._clock,
        )

    def _build_lanes(self, model: PictureModel, git: GitAccess, workspace: Workspace) -> None:
        metered = self._build_metered(model, git)
        self._toolset.mcp_servers.use_model(
            SamplingModel(arbiter=self._arbiter, model=metered, settings=self._dynamic)
        )
        # Compaction repeats no call: it has its own backoff, and shutdown must not wait for a model.
        compaction_model = CompactionModel(
            model=metered,
            settings=self._dynamic,
            session=self._session_log,
            cool_downs=self._cool_downs,
        )
        self._compactor = Compactor(
            committer=self._arbiter,
            memory=self._memory,
            assembler=self._assembler,
            model=compaction_model,
            settings=self._dynamic,
        )
        self._summarizer = SessionSummarizer(
            committer=self._arbiter,
            memory=self._memory,
            model=compaction_model,
            settings=self._dynamic,
        )
        caller = self._build_caller(metered)
        skills = SkillStepper(self._arbiter, self._toolset.skills, self._dynamic)
        self._jobs = self._build_jobs(caller, skills)
        self._lanes = ConversationLanes(
            factory=self._build_edge_factory(caller, skills, workspace),
            arbiter=self._arbiter,
            jobs=self._jobs,
            home_dm=self._hello.resource_bindings.dm,
        )

    def _build_edge_factory(
        self, caller: ModelCaller, skills: SkillStepper, workspace: Workspace
    ) -> EdgeLaneFactory:
        return EdgeLaneFactory(
            arbiter=self._arbiter,
            model=caller,
            skills=skills,
            attachments=AttachmentReader(
                arbiter=self._arbiter,
                memory=self._memory,
                files=self._toolset.files,
                settings=self._dynamic,
            ),
            reminders=self._build_reminder_lookup(),
            voice_notes=VoiceNotes(
                AudioTranscriber(workspace, self._toolset.web, self._money), self._dynamic
            ),
            voice_answers=VoiceAnswers(
                SpeechSynthesizer(workspace, self._toolset.web), self._money, self._dynamic
            ),
            settings=self._dynamic,
            clock=self._clock,
            status=self._status,
            left_messages=self._signals,
        )

    def _build_caller(self, model: MeteredModel) -> ModelCaller:
        return ModelCaller(
            arbiter=self._arbiter,
            model=model,
            prompts=self._build_prompts(),
            tools=self._toolset.registry,
            settings=self._dynamic,
            shrinker=self._compactor,
            outages=self._outages,
            describer=PictureDescriber(
                arbiter=self._arbiter,
                memory=self._memory,
                model=model,
                settings=self._dynamic,
                cool_downs=self._cool_downs,
            ),
            drafts=self._drafts,
            cool_downs=self._cool_downs,
        )

    def _build_assembler(self) -> tuple[PromptAssembler, SkillFolderList]:
        folders = self._toolset.skill_folders
        unavailable = unavailable_tools(self._toolset.registry.manifests(), self._hello.config)
        parts = read_prompt_parts(
            Path(self._boot.choir_dir),
            self._toolset.skills.summaries(unavailable),
            incognito=self._hello.memory_mode == INCOGNITO,
        )
        approved = folders.summaries(self._hello.config.skills)
        assembler = PromptAssembler(self._memory, parts.render(approved), self._toolset.registry)
        return assembler, SkillFolderList(assembler, parts, folders, listed=approved)

    def _build_prompts(self) -> LanePrompts:
        return LanePrompts(
            session=self._session_log,
            assembler=self._assembler,
            registry=self._toolset.registry,
            skills=self._toolset.skills,
            settings=self._dynamic,
        )

    def _build_jobs(self, caller: ModelCaller, skills: SkillStepper) -> CoreJobManager:
        factory = CoreJobFactory(
            arbiter=self._arbiter,
            model=caller,
            harnesses=HarnessJobs(
                self._toolset.harnesses,
                arbiter=self._arbiter,
                memory=self._memory,
                settings=self._dynamic,
                money=self._money,
            ),
            skills=skills,
            tools=self._toolset.registry,
            settings=self._dynamic,
            clock=self._clock,
            status=self._status,
        )
        return CoreJobManager(self._arbiter, factory)

    def _build_reminder_lookup(self) -> ReminderLookup:
        return ReminderLookup(
            control=self._control,
            arbiter=self._arbiter,
            memory=self._memory,
            settings=self._dynamic,
            clock=self._clock,
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
                tasks.create_task(self._drafts.run()),
                tasks.create_task(self._signals.follow(self._dispatcher)),
                tasks.create_task(self._compactor.run()),
                tasks.create_task(self._toolset.mcp_servers.run()),
                tasks.create_task(self._toolset.harnesses.run()),
            ]
            lanes = tasks.create_task(self._run_lanes())
            reason, flushed = await self._shutdown.end(lanes)
            # Cancel these before TERMINATE, which ends our lease: a later heartbeat would be answered
            # as fenced.
            for task in background:
                task.cancel()
        # Without a flush control must handle this as a crash, so TERMINATE is not sent.
        if not flushed:
            return EXIT_UNFLUSHED
        await self._send_terminate(reason)
        return EXIT_OK

    async def _run_lanes(self) -> None:
        # Heartbeats are running already, so a slow response here does not look like a crash.
        await self._dynamic.load_secrets()
        await self._lanes.run()

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
                    taint=inherited.taint,
                ),
            )
        # A crash may have interrupted the copying: continue after the last durable copy.
        for copy in inherited.copies[self._arbiter.state.carried :]:
            self._arbiter.commit(copy.lane, copy.event, more_follows=True)
        if self._hello.head_rev:
            self._arbiter.commit(SESSION_LANE, SessionResumed(epoch=self._hello.epoch))
        self._record_memory_mode()
        log.info("session opened", status=self._hello.status, epoch=self._hello.epoch)

    def _record_memory_mode(self) -> None:
        """Commit the session's memory mode, once, if it or the mode before is not the default one."""
        mode, previous = self._hello.memory_mode, self._hello.previous_memory_mode
        if self._arbiter.state.memory_mode is not None or mode == previous == DEFAULT_MODE:
            return
        self._arbiter.commit(
            SESSION_LANE, MemoryModeChanged(mode=mode, previous=previous), more_follows=True
        )

    def _listen_to_sigterm(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._shutdown.request_stop_by_sigterm)

    async def _send_terminate(self, reason: str) -> None:
        try:
            async with asyncio.timeout(self._settings.flush_grace_s):
                await self._control.terminate(TerminateRequest(reason=reason))
        except (ChoirError, TimeoutError) as error:
            log.warning("TERMINATE_SELF failed", error=str(error))
