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

from choir_agent.arbiter.approvals import Approvals
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.arbiter.past_failures import PastFailures
from choir_agent.arbiter.policy import Policy
from choir_agent.budgets.reserve import Purse
from choir_agent.compaction.ask import Asker
from choir_agent.compaction.compact import Compactor
from choir_agent.compaction.session_summary import SessionSummarizer, SessionSummary
from choir_agent.control.client import Control, says_stop
from choir_agent.control.dynamic_settings import DynamicSettings
from choir_agent.control.follow import follow_signals
from choir_agent.control.greet import greet
from choir_agent.control.status import StatusReporter
from choir_agent.credentials.git import GitAccess
from choir_agent.lanes.core import CoreJob
from choir_agent.lanes.core_states import ENDS, CoreState
from choir_agent.lanes.decisions import Decisions
from choir_agent.lanes.edge import EdgeLane
from choir_agent.lanes.ending import Ending, StopRequest
from choir_agent.lanes.histories import Histories
from choir_agent.lanes.jobs import SESSION_LANE, CoreJobs
from choir_agent.lanes.prompts import LanePrompts
from choir_agent.lanes.receive import Receiver
from choir_agent.lanes.remind import Reminding
from choir_agent.lanes.skill_steps import SkillSteps
from choir_agent.lanes.standing import standing
from choir_agent.lanes.think import Thinker
from choir_agent.locks.locks import Locks
from choir_agent.log.listeners import Listeners
from choir_agent.log.session_log import SessionLog
from choir_agent.log.state import EDGE, JobState
from choir_agent.memory.predecessor import inherit
from choir_agent.memory.snapshots import Snapshots
from choir_agent.memory.working import WorkingMemory
from choir_agent.models.choice import name_of
from choir_agent.models.metered import MeteredModel
from choir_agent.models.openai_model import OpenAiModel
from choir_agent.models.outages import ModelOutages
from choir_agent.models.retrying import RetryingModel
from choir_agent.models.tokenizer import Tokenizer
from choir_agent.prompt.assemble import Assembler, Prompt
from choir_agent.prompt.history import HistoryFormat
from choir_agent.prompt.identity import read_static_prompts
from choir_agent.replication.replicate import Replication
from choir_agent.settings import AgentProcessSettings
from choir_agent.skills.shapes import faults
from choir_agent.tools.availability import not_offered
from choir_agent.tools.staging import make_staging
from choir_agent.tools.workspace import Workspace
from choir_agent.toolset import Toolset, make_toolset
from choir_common.choir_dir import SKILLS, TOOLS, hash_directory, read_version
from choir_common.clock import SystemClock
from choir_common.errors import ChoirError
from choir_common.eventlog.chain import Head
from choir_common.telemetry import Redactor
from choir_common.wire.events import SessionResumed, SessionStarted
from choir_common.wire.rpc import HelloRequest, HelloResponse, StatusReport, TerminateRequest
from choir_common.wire.runtime import AgentBoot

log = structlog.get_logger("choir.agent")

EXIT_OK = 0
EXIT_UNFLUSHED = 1
EXIT_FENCED = 3


async def run_agent(boot: AgentBoot, settings: AgentProcessSettings, redactor: Redactor) -> int:
    """Run the agent described by `boot` until its session ends; return the process's exit code.

    Raises StartupError if the workspace, the tools or the skills are invalid, or if control is unreachable.
    """
    workspace = Workspace(Path(boot.workspace))
    make_staging(workspace)
    control = Control(boot)
    memory, listeners = WorkingMemory(), Listeners()
    # Working memory must also receive the restored tail, so it is registered before `restore`.
    listeners.add(memory.take_in)
    session_log = SessionLog(boot.session_id, SystemClock(), listeners.tell, redactor.clean)
    choir_dir = Path(boot.choir_dir)
    git = GitAccess(settings.tmp_dir, workspace.root)
    toolset = make_toolset(control, workspace, session_log, settings.tmp_dir, choir_dir, git)
    model = OpenAiModel()
    try:
        hello = await greet(control, _introduction(boot), settings.hello_patience_s)
        session_log.restore(hello.tail_events, Head(hello.head_rev, hello.head_hash))
        parts = Parts(
            boot, settings, redactor, control, hello, workspace, session_log, listeners, memory,
            toolset, model, git,
        )  # fmt: skip
        return await Agent(parts).run()
    except (ChoirError, ExceptionGroup) as error:
        if not says_stop(error):
            raise
        log.warning("control says this agent is over; stopping", session=boot.session_id)
        return EXIT_FENCED
    finally:
        await git.close()
        await model.close()
        await control.close()
        workspace.close()


def _introduction(boot: AgentBoot) -> HelloRequest:
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
        tool_manifest_hash=hash_directory(choir_dir / TOOLS),
        skill_manifest_hash=hash_directory(choir_dir / SKILLS),
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """The objects that exist before control has replied to INIT_HELLO, and that reply."""

    boot: AgentBoot
    settings: AgentProcessSettings
    redactor: Redactor
    control: Control
    hello: HelloResponse
    workspace: Workspace
    session_log: SessionLog
    listeners: Listeners
    memory: WorkingMemory
    toolset: Toolset
    model: OpenAiModel
    git: GitAccess


class Agent:
    """A running session: builds and connects all objects, and runs them."""

    def __init__(self, parts: Parts) -> None:
        self._boot, self._settings, self._hello = parts.boot, parts.settings, parts.hello
        self._control, self._clock = parts.control, SystemClock()
        self._outages = ModelOutages(self._clock, parts.redactor)
        self._dynamic = DynamicSettings(
            parts.control, parts.redactor, parts.hello.config_version, parts.hello.config,
            parts.git.adopt,
        )  # fmt: skip
        self._replication = Replication(
            parts.control,
            parts.session_log,
            self._clock,
            parts.boot.agent_id,
            parts.boot.epoch,
            lambda: self._dynamic.version,
            self._dynamic.heartbeat_interval_s,
            self._dynamic.renew,
        )
        self._status = StatusReporter(parts.control, self._describe)
        self._approvals = Approvals(parts.control)
        self._arbiter = Arbiter(
            parts.session_log,
            self._replication,
            Policy(parts.toolset.registry, parts.toolset.skills),
            parts.workspace,
            Locks(),
            self._approvals,
            self._dynamic.current,
            Snapshots(parts.memory),
            PastFailures(parts.control),
        )
        self._build_lanes(parts)
        self._ending = Ending(
            self._arbiter,
            self._replication,
            self._edge,
            self._sum_up,
            parts.settings.flush_grace_s,
        )
        decisions = Decisions(self._arbiter, self._approvals)
        self._receiver = Receiver(
            self._arbiter, self._edge, self._jobs, decisions, self._dynamic.renew, self._ask_to_stop
        )
        # Registered after the restore: these react to new events only.
        for reacts in (self._jobs, self._edge, decisions, self._compactor):
            parts.listeners.add(reacts.take_in)

    def _build_lanes(self, parts: Parts) -> None:
        registry, skills = parts.toolset.registry, parts.toolset.skills
        missing = not_offered(registry.manifests(), parts.hello.config)
        identity = read_static_prompts(Path(parts.boot.choir_dir), skills.summaries(missing))
        assembler = Assembler(parts.memory, identity, registry.model_name)
        prompts = LanePrompts(
            lambda: self._arbiter.state, assembler, registry, skills, self._dynamic.current
        )
        purse = Purse(lambda: self._arbiter.state, lambda: self._dynamic.current().settings.budgets)
        count = Tokenizer(parts.git.own_children).count
        meter = parts.memory.meter
        metered = MeteredModel(
            RetryingModel(parts.model, self._dynamic.current), purse, meter, count
        )
        # No RetryingModel: compaction has its own backoff, and shutdown must not wait for a model.
        asker = Asker(MeteredModel(parts.model, purse, meter, count), self._dynamic.current)
        self._compactor = Compactor(
            self._arbiter, parts.memory, assembler, asker, self._dynamic.current
        )
        self._summarizer = SessionSummarizer(parts.memory, asker, self._dynamic.current)
        steps = SkillSteps(self._arbiter, skills, self._dynamic.current)

        histories = Histories()

        def thinker(lane: str, make_prompt: Callable[[HistoryFormat], Prompt]) -> Thinker:
            return Thinker(
                lane, self._arbiter, metered, make_prompt, registry.canonical, self._dynamic.current,
                lambda: self._compactor.shrink(lane), histories, self._outages,
            )  # fmt: skip

        def make_job(job: JobState) -> CoreJob:
            thinks = thinker(job.lane, lambda history: prompts.core(job, history))
            return CoreJob(
                job, self._arbiter, thinks, steps, self._dynamic.current, self._clock, faults,
                self._note_job,
            )  # fmt: skip

        self._jobs = CoreJobs(self._arbiter, make_job)
        self._edge = EdgeLane(
            self._arbiter,
            thinker(EDGE, prompts.edge),
            self._jobs,
            steps,
            Reminding(
                parts.control, self._arbiter, parts.memory, self._dynamic.current, self._clock
            ),
            self._dynamic.current,
            self._clock,
            lambda state: self._status.note(EDGE, state),
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
            lane = tasks.create_task(self._work())
            reason, flushed = await self._ending.end(lane)
            # Cancel these before TERMINATE, which ends our lease: a later heartbeat would be answered
            # as fenced.
            for task in background:
                task.cancel()
        # Without a flush control must handle this as a crash, so TERMINATE is not sent.
        if not flushed:
            return EXIT_UNFLUSHED
        await self._say_goodbye(reason)
        return EXIT_OK

    async def _work(self) -> None:
        self._status.note(EDGE, self._edge.state)
        # Heartbeats are running already, so a slow response here does not look like a crash.
        await self._dynamic.load_secrets()
        await self._edge.run()

    def _open_session(self) -> None:
        structlog.contextvars.bind_contextvars(session=self._boot.session_id)
        inherited = inherit(self._hello.snapshot, self._hello.continues)
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
            self._arbiter.commit(EDGE, carried, more_follows=True)
        if self._hello.head_rev:
            self._arbiter.commit(SESSION_LANE, SessionResumed(epoch=self._hello.epoch))
        log.info("session open", status=self._hello.status, epoch=self._hello.epoch)

    def _listen_to_sigterm(self) -> None:
        # The runtime kills the process soon after SIGTERM, so there is no time for a summary.
        request = StopRequest("SIGTERM", self._settings.hurry_grace_s, summary=False)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._ending.ask, request)

    def _ask_to_stop(self, reason: str) -> None:
        self._ending.ask(StopRequest(reason, self._settings.stop_grace_s))

    async def _follow(self) -> None:
        async for entry in follow_signals(self._control):
            await self._receiver.receive(entry)

    async def _sum_up(self) -> SessionSummary | None:
        return await self._summarizer.sum_up(self._arbiter.state)

    def _note_job(self, lane: str, state: CoreState) -> None:
        self._status.note(lane, state, ended=state in ENDS)

    def _describe(self, lane: str, state: str) -> StatusReport:
        settings = self._dynamic.current().settings
        failure = self._outages.of(name_of(settings, lane))
        now = self._clock.now()
        return standing(lane, state, self._arbiter.state, settings.budgets, now, failure)

    async def _say_goodbye(self, reason: str) -> None:
        try:
            async with asyncio.timeout(self._settings.flush_grace_s):
                await self._control.terminate(TerminateRequest(reason=reason))
        except (ChoirError, TimeoutError) as error:
            log.warning("control did not take our goodbye", reason=str(error))
