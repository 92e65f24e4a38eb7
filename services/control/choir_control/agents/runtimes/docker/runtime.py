"""Agent runtime `DockerRuntime`, with agents as containers.

Calls of the engine block, so they run in a thread pool.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from choir_common.errors import ChoirError, InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_common.wire.local_tools import ToolTrialOrder
from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.agent_records import RuntimeWithRecords
from choir_control.agents.runtimes.containers import (
    CONTAINER_CHOIR_DIR,
    CONTAINER_SOCKET_DIR,
    CONTAINER_WORKSPACE,
    ContainerLimits,
    boot_line,
)
from choir_control.agents.runtimes.docker.container import (
    AGENT,
    EPOCH,
    SESSION,
    Installation,
    container_create_request,
    container_name,
    installation_labels,
    trial_create_request,
    trial_name,
)
from choir_control.agents.runtimes.docker.engine import Container, ContainerState, DockerEngine
from choir_control.agents.runtimes.docker.streams import ContainerExitWatcher, ContainerLogReader
from choir_control.agents.runtimes.port import LaunchSpec, RunningAgent

log = structlog.get_logger()

T = TypeVar("T")

THREADS = 8
KILLED_WITHIN_S = 15.0
SHORT_ID = 12
LOG_DRAIN_S = 5.0
RETRY_S = 1.0
TRIAL_MARGIN_S = 30.0
"""Time for which the engine's connection outlives the wait for a trial."""


@dataclass(slots=True)
class ContainerAgent:
    """State of one agent from its start to its exit; `container_id` is empty until it was created."""

    spec: LaunchSpec
    container_id: str = ""
    is_running: bool = False
    session_over: bool = False
    output: ContainerLogReader | None = None
    died: asyncio.Event = field(default_factory=asyncio.Event)
    removed: asyncio.Event = field(default_factory=asyncio.Event)

    def describe(self) -> RunningAgent:
        """Return the port's description of the agent; its pid belongs to another namespace and is omitted."""
        spec, handle = self.spec, self.container_id[:SHORT_ID]
        return RunningAgent(spec.agent_id, spec.session_id, spec.epoch, handle, None)


class DockerRuntime(RuntimeWithRecords[ContainerAgent]):
    """`AgentRuntime` with each agent in a hardened container."""

    def __init__(
        self,
        *,
        home: Path,
        image: str,
        network: str = "",
        log_level: str = "info",
        limits: ContainerLimits | None = None,
        engine: DockerEngine | None = None,
        logs: AgentLogs | None = None,
        otlp_endpoint: str = "",
    ) -> None:
        """Configure the runtime; `home` must be the same path here and on the engine's host."""
        super().__init__(logs or AgentLogs(home))
        self._site = Installation(
            home=home,
            image=image,
            network=network or "bridge",
            uid=os.getuid(),
            gid=os.getgid(),
            log_level=log_level,
            limits=limits or ContainerLimits(),
            otlp_endpoint=otlp_endpoint,
        )
        self._engine = engine or DockerEngine()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        self._exit_watcher: ContainerExitWatcher | None = None
        self._ping: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self, spec: LaunchSpec) -> RunningAgent:
        """Start the agent and write its boot line to its standard input.

        Raises Conflict when that agent already runs, and Unavailable when it cannot be started.
        """
        agent = self._reserve(ContainerAgent(spec))
        self._listen()
        name, body = (
            container_name(self._site, spec.agent_id),
            container_create_request(self._site, spec),
        )
        try:
            agent.container_id = await self._run_in_thread(partial(self._engine.create, name, body))
            await self._run_in_thread(
                partial(self._engine.start, agent.container_id, boot_line(spec))
            )
        except BaseException:
            # Not awaited when cancelled: the next start removes a leftover container with this name.
            del self._agents[spec.agent_id]
            if agent.container_id:
                self._threads.submit(self._engine.remove, agent.container_id)
            raise
        agent.is_running = True
        agent.output = await self._run_in_thread(partial(self._read_output, agent))
        self._watch(agent, self._follow(agent))
        return agent.describe()

    async def stop(self, agent_id: str, grace_s: float) -> None:
        """Stop the agent: SIGTERM, wait up to `grace_s` seconds, then kill its container."""
        agent = self._agents.get(agent_id)
        if agent is None or not agent.is_running:
            return
        await self._run_in_thread(partial(self._engine.stop, agent.container_id, grace_s))
        await self._await_end(agent)

    async def run_trial(self, spec: LaunchSpec, order: ToolTrialOrder, timeout_s: float) -> bytes:
        """Run the agent's trial program in a container like the agent's; return its report.

        One at a time for each agent. Raises InvalidRequest with what the program says, and Unavailable.
        """
        inside = order.model_copy(
            update={
                "workspace": CONTAINER_WORKSPACE,
                "choir_dir": CONTAINER_CHOIR_DIR,
                "egress_socket": spec.egress_socket(CONTAINER_SOCKET_DIR),
            }
        )
        name, body = trial_name(self._site, spec.agent_id), trial_create_request(self._site, spec)
        container_id = await self._run_in_thread(partial(self._engine.create, name, body))
        try:
            line = inside.model_dump_json().encode()
            await self._run_in_thread(partial(self._engine.start, container_id, line))
            # Not a thread of the pool: it waits long. The removal below ends it.
            waiting = asyncio.to_thread(self._engine.wait, container_id, timeout_s + TRIAL_MARGIN_S)
            async with asyncio.timeout(timeout_s):
                code = await waiting
            report, errors = await self._run_in_thread(
                partial(self._engine.read_output, container_id)
            )
        except TimeoutError:
            raise Unavailable(
                _("The trial did not end within {timeout_s:g} s.").format(timeout_s=timeout_s)
            ) from None
        finally:
            remove = partial(self._engine.remove, container_id)
            await asyncio.shield(asyncio.create_task(self._run_in_thread(remove)))
        if code != 0:
            # the last line: warnings about the host come before it
            lines = errors.decode(errors="replace").strip().splitlines() or [
                _("exit code {code}").format(code=code)
            ]
            raise InvalidRequest(lines[-1])
        return report

    async def unavailable_reason(self) -> str:
        """Return why the engine does not answer, or an empty string.

        There is one request at a time, because each blocks a thread.
        """
        if self._ping is None or self._ping.done():
            self._ping = asyncio.create_task(self._run_in_thread(self._engine.ping))
            # the caller may have been cancelled; retrieve the exception, so that it is not logged as
            # unhandled
            self._ping.add_done_callback(lambda ping: ping.cancelled() or ping.exception())
        try:
            await asyncio.shield(self._ping)
        except ChoirError as error:
            return error.message
        return ""

    def limitations(self) -> tuple[str, ...]:
        """Return an empty tuple: the engine confines agents, and each agent logs what its calls lack."""
        return ()

    def call_limits(self) -> str:
        """Return the engine: a container's limits cover the agent with its calls."""
        return _("tool calls are limited by the container of their agent")

    async def remove_orphans(self) -> int:
        """Remove the containers that an earlier control process left behind; return how many.

        Raises Unavailable.
        """
        containers = await self._run_in_thread(
            partial(self._engine.list_containers, installation_labels(self._site))
        )
        container_ids = {agent.container_id for agent in self._agents.values()}
        orphans = [container for container in containers if container.id not in container_ids]
        for orphan in orphans:
            agent_id = orphan.labels.get(AGENT, "unknown")
            await self._run_in_thread(partial(self._clear_up_orphan, agent_id, orphan))
            log.info(
                "removed an orphaned agent", container=orphan.id, epoch=orphan.labels.get(EPOCH)
            )
        return len(orphans)

    async def hand_over(self) -> None:
        """Do what `close` does: the agents end fast, and are on this host."""
        await self.close()

    async def close(self) -> None:
        """Kill the agents that still run and release the adapter's resources; idempotent."""
        if self._closed:
            return
        self._closed = True
        agents = [agent for agent in self._agents.values() if agent.is_running]
        await asyncio.gather(*(self._end(agent) for agent in agents))
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        if self._exit_watcher is not None:
            await self._run_in_thread(self._exit_watcher.stop)
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._logs.close)
        self._engine.close()
        self._end_exits()

    async def _end(self, agent: ContainerAgent) -> None:
        try:
            await self._run_in_thread(partial(self._engine.kill, agent.container_id))
            await self._await_end(agent)
        except ChoirError as error:
            log.warning("cannot end an agent", agent=agent.spec.agent_id, error=error.message)

    async def _await_end(self, agent: ContainerAgent) -> None:
        """Wait until the exit of a stopped agent has been reported."""
        agent.died.set()  # the engine confirmed the stop; the exit event may come later
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILLED_WITHIN_S):
                await agent.removed.wait()

    def _listen(self) -> None:
        """Start to watch the engine's exit events, on the first start of an agent."""
        if self._exit_watcher is not None:
            return
        self._exit_watcher = ContainerExitWatcher(
            engine=self._engine,
            labels=installation_labels(self._site),
            listener=self,
            loop=asyncio.get_running_loop(),
        )
        self._exit_watcher.start()

    def note_exit(self, container_id: str) -> None:
        """Note that a container has exited."""
        for agent in self._agents.values():
            if agent.container_id == container_id:
                agent.died.set()

    def note_running(self, container_ids: frozenset[str]) -> None:
        """Note which agents are not among the running containers."""
        for agent in self._agents.values():
            if agent.is_running and agent.container_id not in container_ids:
                # It may have started after the list was made: `_follow` checks its state first.
                agent.died.set()

    async def _follow(self, agent: ContainerAgent) -> None:
        """Wait for the exit, complete the log, remove the container, and report the exit."""
        spec, final_state = agent.spec, None
        while True:
            await agent.died.wait()
            try:
                state = await self._run_in_thread(partial(self._engine.state, agent.container_id))
                if state is None or not state.running:
                    final_state = state
                    break
                agent.died.clear()
            except ChoirError as error:
                log.warning("cannot inspect an agent", agent=spec.agent_id, error=error.message)
                await asyncio.sleep(RETRY_S)
        try:
            await self._run_in_thread(partial(self._clear_up, agent))
        except (ChoirError, OSError) as error:
            log.warning("cannot clear up after an agent", agent=spec.agent_id, error=str(error))
        agent.removed.set()
        code = final_state.code if final_state else None
        await self._report(agent, code, _describe(final_state))

    def _read_output(self, agent: ContainerAgent) -> ContainerLogReader:
        return ContainerLogReader(self._engine, agent.container_id, self._logs.writer(agent.spec))

    def _clear_up(self, agent: ContainerAgent) -> None:
        """Wait for the last output, remove the container, archive the log of an ended session; blocks."""
        if agent.output is not None:
            agent.output.settled(LOG_DRAIN_S)
        self._engine.remove(agent.container_id)
        if agent.session_over:
            self._logs.archive(agent.spec.agent_id)

    def _clear_up_orphan(self, agent_id: str, orphan: Container) -> None:
        """Log what the container wrote after the earlier control process ended, and remove it; blocks."""
        path = self._logs.path(agent_id)
        # the engine has only whole seconds, so the lines of one second may be logged twice
        since = int(path.stat().st_mtime) if path.exists() else 0
        writer = self._logs.session_writer(agent_id, orphan.labels.get(SESSION, ""))
        writer.feed(self._engine.read_log(orphan.id, since))
        writer.finish()
        self._engine.remove(orphan.id)

    async def _run_in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking engine call in the thread pool."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _describe(final_state: ContainerState | None) -> str:
    if final_state is None:
        return _("its container was removed")
    if final_state.out_of_memory:
        return _("out of memory, exit code {code}").format(code=final_state.code)
    code = _("exit code {code}").format(code=final_state.code)
    return f"{code} ({final_state.error})" if final_state.error else code
