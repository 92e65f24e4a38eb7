"""Build the agent, greet control, run until told to stop, and end in good order (spec 11.8, 13.2, 17.2).

Called by `__main__`. Objects are built closed, started together, and ended in reverse; what comes next is
`lanes`.
"""

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import structlog

from choir_agent.arbiter.approvals import Approvals
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.reserve import Purse
from choir_agent.control.backoff import Backoff
from choir_agent.control.client import Control, says_stop
from choir_agent.control.dynamic_settings import DynamicSettings
from choir_agent.control.follow import follow_signals
from choir_agent.control.status import StatusReporter
from choir_agent.lanes.edge import LANE as EDGE
from choir_agent.lanes.edge import EdgeLane
from choir_agent.lanes.think import Thinker
from choir_agent.locks.locks import Locks
from choir_agent.log.session_log import SessionLog
from choir_agent.memory.working import WorkingMemory
from choir_agent.models.metered import MeteredModel
from choir_agent.models.openai_model import OpenAiModel
from choir_agent.prompt.assemble import Assembler, Prompt
from choir_agent.prompt.identity import read_static_prompts
from choir_agent.replication.replicate import Replication
from choir_agent.settings import AgentProcessSettings
from choir_agent.tools.registry import Registry
from choir_agent.tools.staging import make_staging
from choir_agent.tools.workspace import Workspace
from choir_agent.toolset import make_registry
from choir_common.clock import SystemClock
from choir_common.errors import BadInput, ChoirError, StartupError
from choir_common.eventlog.chain import Head
from choir_common.telemetry import Redactor
from choir_common.wire.events import SessionResumed, SessionStarted, SessionStopped
from choir_common.wire.rpc import HelloRequest, HelloResponse, TerminateRequest
from choir_common.wire.runtime import AgentBoot
from choir_common.wire.signals import (
    ApprovalResolvedSignal,
    CancelSignal,
    CompactSignal,
    ConfigChangedSignal,
    InjectSignal,
    ShutdownSignal,
    Signal,
    UserMessageSignal,
)

log = structlog.get_logger("choir.agent")

EXIT_OK = 0
EXIT_UNFLUSHED = 1
EXIT_FENCED = 3
SESSION_LANE = "session"
NO_SKILLS = ""


async def run_agent(boot: AgentBoot, settings: AgentProcessSettings, redactor: Redactor) -> int:
    """Be the agent of `boot` until the session ends; returns the process's exit code.

    Raises StartupError when the workspace or control cannot be had.
    """
    workspace = Workspace(Path(boot.workspace))
    make_staging(workspace)
    control = Control(boot)
    memory = WorkingMemory()
    session_log = SessionLog(boot.session_id, SystemClock(), memory.take_in, redactor.clean)
    registry = make_registry(control, workspace, session_log, settings.tmp_dir)
    model = OpenAiModel()
    try:
        hello = await greet(control, boot, registry, settings.hello_patience_s)
        session_log.restore(hello.tail_events, Head(hello.head_rev, hello.head_hash))
        agent = Agent(
            boot,
            settings,
            redactor,
            hello,
            control,
            session_log,
            memory,
            workspace,
            registry,
            model,
        )
        return await agent.run()
    except (ChoirError, ExceptionGroup) as error:
        if not says_stop(error):
            raise
        log.warning("control says this agent is over; stopping", session=boot.session_id)
        return EXIT_FENCED
    finally:
        await model.close()
        await control.close()
        workspace.close()


async def greet(
    control: Control, boot: AgentBoot, registry: Registry, patience_s: float
) -> HelloResponse:
    """Introduce this process to control, which may still be starting.

    Raises StartupError when control does not answer within `patience_s`, Fenced or Unauthorized when
    it does not want us.
    """
    request = HelloRequest(
        agent_id=boot.agent_id,
        session_id=boot.session_id,
        epoch=boot.epoch,
        image_version=boot.image_version,
        tool_manifest_hash=registry.manifest_hash,
        skill_manifest_hash=NO_SKILLS,
    )
    deadline = asyncio.get_running_loop().time() + patience_s
    backoff = Backoff()
    while True:
        try:
            return await control.hello(request)
        except ChoirError as error:
            if says_stop(error):
                raise
            hopeless = isinstance(error, BadInput)
            if hopeless or asyncio.get_running_loop().time() > deadline:
                raise StartupError(
                    f"Control at {boot.endpoint} did not let us in: {error.message}"
                ) from error
            await asyncio.sleep(backoff.pause_s())


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Why the agent is to stop, and how long its turn may go on."""

    reason: str
    grace_s: float


class Agent:
    """A running session: everything built, wired and started."""

    def __init__(
        self,
        boot: AgentBoot,
        settings: AgentProcessSettings,
        redactor: Redactor,
        hello: HelloResponse,
        control: Control,
        session_log: SessionLog,
        memory: WorkingMemory,
        workspace: Workspace,
        registry: Registry,
        model: OpenAiModel,
    ) -> None:
        self._boot, self._settings, self._hello = boot, settings, hello
        self._control = control
        self._dynamic = DynamicSettings(control, redactor, hello.config_version, hello.config)
        self._replication = Replication(
            control,
            session_log,
            SystemClock(),
            boot.agent_id,
            boot.epoch,
            lambda: self._dynamic.version,
            self._dynamic.heartbeat_interval_s,
            self._dynamic.renew,
        )
        self._approvals = Approvals(control)
        self._arbiter = Arbiter(
            session_log, self._replication, registry, workspace, Locks(), self._approvals
        )
        assembler = Assembler(
            memory, read_static_prompts(Path(boot.choir_dir)), registry.model_name
        )

        def edge_prompt() -> Prompt:
            return assembler.edge(self._arbiter.state, registry.view(EDGE))

        purse = Purse(lambda: session_log.state, lambda: self._dynamic.current().settings.budgets)
        metered = MeteredModel(model, purse)
        thinker = Thinker(
            EDGE, self._arbiter, metered, edge_prompt, registry.canonical, self._dynamic.current
        )
        self._status = StatusReporter(control)
        self._edge = EdgeLane(
            self._arbiter,
            thinker,
            self._dynamic.current,
            lambda state: self._status.note(EDGE, state),
        )
        self._stops: asyncio.Queue[StopRequest] = asyncio.Queue(maxsize=100)

    async def run(self) -> int:
        """Work until a stop is asked for, then end in good order; returns the exit code.

        Raises Fenced or Unauthrorized (in a group) when control takes the session away.
        """
        self._open_session()
        self._listen_to_sigterm()
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._replication.run()),
                tasks.create_task(self._dynamic.run()),
                tasks.create_task(self._status.run()),
                tasks.create_task(self._follow()),
            ]
            lane = tasks.create_task(self._work())
            reason = await self._end_lane(lane)
            flushed = await self._flush(reason)
            # before the goodbye: it ends our lease, and a heartbeat after it would look like a fence
            for task in background:
                task.cancel()
        if not flushed:
            return EXIT_UNFLUSHED
        await self._say_goodbye(reason)
        return EXIT_OK

    async def _work(self) -> None:
        self._status.note(EDGE, self._edge.state)
        # heartbeats already run, so a slow answer here looks like no crash
        await self._dynamic.load_secrets()
        await self._edge.run()

    def _open_session(self) -> None:
        structlog.contextvars.bind_contextvars(session=self._boot.session_id)
        if self._hello.head_rev == 0:
            self._arbiter.commit(
                SESSION_LANE,
                SessionStarted(
                    agent_id=self._boot.agent_id,
                    epoch=self._hello.epoch,
                    continues=self._hello.continues,
                    image_version=self._boot.image_version,
                ),
            )
        else:
            self._arbiter.commit(SESSION_LANE, SessionResumed(epoch=self._hello.epoch))
        log.info("session open", status=self._hello.status, epoch=self._hello.epoch)

    def _listen_to_sigterm(self) -> None:
        request = StopRequest("SIGTERM", self._settings.hurry_grace_s)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ask_to_stop, request)

    def _ask_to_stop(self, request: StopRequest) -> None:
        if not self._stops.full():
            self._stops.put_nowait(request)

    async def _follow(self) -> None:
        async for entry in follow_signals(self._control):
            await self._receive(entry)

    async def _receive(self, entry: Signal) -> None:
        match entry.body:
            case UserMessageSignal():
                await self._edge.take(entry.body)
            case CancelSignal(job=None):
                self._edge.cancel_turn()
            case ConfigChangedSignal():
                self._dynamic.renew()
            case ApprovalResolvedSignal():
                self._approvals.resolve(entry.body.approval_id)
            case ShutdownSignal():
                self._ask_to_stop(StopRequest(entry.body.reason, self._settings.stop_grace_s))
            case InjectSignal() | CompactSignal() | CancelSignal():
                log.warning("this agent has no use for the signal", kind=entry.body.kind)
            case _:
                assert_never(entry.body)

    async def _end_lane(self, lane: asyncio.Task[None]) -> str:
        """Wait for a stop, then for the lane's safe point, and no longer than its grace."""
        request = await self._stops.get()
        log.info("stopping", reason=request.reason)
        self._edge.stop()
        reason = request.reason
        while not lane.done():
            another = asyncio.create_task(self._stops.get())
            await asyncio.wait(
                {lane, another}, timeout=request.grace_s, return_when=asyncio.FIRST_COMPLETED
            )
            if another.done():
                request = another.result()
                continue
            another.cancel()
            if not lane.done():
                self._edge.cancel_turn()
                await asyncio.wait({lane})
        return reason

    async def _flush(self, reason: str) -> bool:
        """Write the last event and make all durable; returns whether that worked in time."""
        last = self._arbiter.commit(SESSION_LANE, SessionStopped(reason=reason))
        try:
            async with asyncio.timeout(self._settings.flush_grace_s):
                await self._replication.durable(last)
        except TimeoutError:
            log.error("could not flush the log in time", last_rev=last)
            return False
        return True

    async def _say_goodbye(self, reason: str) -> None:
        try:
            async with asyncio.timeout(self._settings.flush_grace_s):
                await self._control.terminate(TerminateRequest(reason=reason))
        except (ChoirError, TimeoutError) as error:
            log.warning("control did not take our goodbye", reason=str(error))
