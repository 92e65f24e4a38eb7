"""Agent runtime `KubernetesRuntime`, with agents as pods."""

import asyncio
import contextlib
import math
import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from choir_common.errors import ChoirError, Conflict, Unavailable
from choir_common.i18n import _
from choir_common.wire.local_tools import ToolTrialOrder
from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.agent_records import RuntimeWithRecords
from choir_control.agents.runtimes.containers import ContainerLimits, boot_line
from choir_control.agents.runtimes.kubernetes.api import PodApi
from choir_control.agents.runtimes.kubernetes.pod import (
    AGENT,
    EPOCH,
    LEADER,
    SESSION,
    PodSite,
    agent_labels,
    installation_labels,
    pod_manifest,
    pod_name,
)
from choir_control.agents.runtimes.kubernetes.pod_start import remove_pod, start_pod
from choir_control.agents.runtimes.kubernetes.pod_state import (
    Pod,
    annotation,
    describe_exit,
    exit_code,
    has_ended,
    is_cleared_up,
    uid_of,
)
from choir_control.agents.runtimes.kubernetes.proxy_names import proxy_names
from choir_control.agents.runtimes.kubernetes.watcher import PodLogReader, PodWatcher
from choir_control.agents.runtimes.port import LaunchSpec, ProxyAddress, RunningAgent

log = structlog.get_logger()

KILLED_WITHIN_S = 30.0
LOG_DRAIN_S = 5.0
LAST_EVENT_S = 10.0
RETRY_S = 1.0
EARLIER_END_S = 10.0
"""Time between an agent's word that it ends and its node's, in seconds."""
AT_ONCE_S = 1
"""The shortest grace with which the node still confirms that the process ended."""


@dataclass(slots=True)
class PodAgent:
    """State of one agent from its start to its exit; `uid` is empty until its pod runs."""

    spec: LaunchSpec
    name: str
    uid: str = ""
    newest: Pod | None = None
    """The newest description of its pod; it tells how the agent ended."""
    session_over: bool = False
    output: PodLogReader | None = None
    died: asyncio.Event = field(default_factory=asyncio.Event)
    deleted: asyncio.Event = field(default_factory=asyncio.Event)
    removed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_running(self) -> bool:
        """Return whether its pod runs."""
        return bool(self.uid)

    def describe(self) -> RunningAgent:
        """Return the port's description of the agent; its pid is another node's and is omitted."""
        spec = self.spec
        return RunningAgent(spec.agent_id, spec.session_id, spec.epoch, self.name, None)

    def note(self, pod: Pod, *, is_deletion: bool = False) -> None:
        """Note the newest description of the agent's pod."""
        self.newest = pod
        if is_deletion:
            self.deleted.set()
        if is_deletion or has_ended(pod):
            self.died.set()


class KubernetesRuntime(RuntimeWithRecords[PodAgent]):
    """`AgentRuntime` with each agent in a hardened pod."""

    def __init__(
        self,
        *,
        home: Path,
        image: str,
        claim: str,
        claim_path: str = "",
        log_level: str = "info",
        limits: ContainerLimits | None = None,
        api: PodApi | None = None,
        logs: AgentLogs | None = None,
        otlp_endpoint: str = "",
        user: tuple[int, int] | None = None,
        proxy: ProxyAddress | None = None,
    ) -> None:
        """Configure the runtime; `home` is `claim_path` in the volume of `claim`."""
        super().__init__(logs or AgentLogs(home))
        self._proxy = proxy
        uid, gid = user or (os.getuid(), os.getgid())
        self._site = PodSite(
            home=home,
            claim=claim,
            claim_path=claim_path,
            image=image,
            uid=uid,
            gid=gid,
            log_level=log_level,
            limits=limits or ContainerLimits(),
            otlp_endpoint=otlp_endpoint,
        )
        self._api = api or PodApi()
        self._watcher = PodWatcher(self._api, installation_labels(self._site), self)
        self._closed = False

    async def start(self, spec: LaunchSpec) -> RunningAgent:
        """Start the agent and write its boot line to its standard input.

        Raises Conflict when that agent already runs, and Unavailable when it cannot be started.
        """
        name = pod_name(self._site, spec.agent_id, spec.session_id, spec.epoch)
        await self._await_end_of_earlier(spec)
        agent = self._reserve(PodAgent(spec, name))
        try:
            await asyncio.to_thread(_check_directories, spec)
            proxy = self._proxy if spec.egress_key else None
            names = await proxy_names(proxy) if proxy else None
            manifest = pod_manifest(self._site, spec, names)
            others = agent_labels(self._site, spec.agent_id)
            pod = await start_pod(self._api, manifest, boot_line(spec, proxy), others)
            writer = await asyncio.to_thread(self._logs.writer, spec)
        except BaseException:
            # the next start replaces a pod that is left
            del self._agents[spec.agent_id]
            raise
        agent.uid = uid_of(pod)
        agent.note(pod)
        agent.output = PodLogReader(self._api, name, writer)
        self._watcher.start()
        self._watch(agent, self._follow(agent))
        return agent.describe()

    async def _await_end_of_earlier(self, spec: LaunchSpec) -> None:
        """Wait for the end of an earlier epoch's pod: the agent says that it ends before its node does."""
        earlier = self._agents.get(spec.agent_id)
        if earlier is not None and earlier.spec.epoch < spec.epoch:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EARLIER_END_S):
                    await earlier.removed.wait()

    async def stop(self, agent_id: str, grace_s: float) -> None:
        """Stop the agent: SIGTERM, wait up to `grace_s` seconds, then kill its pod."""
        agent = self._agents.get(agent_id)
        if agent is not None and agent.uid:
            await self._end(agent, max(AT_ONCE_S, math.ceil(grace_s)))

    async def run_trial(self, spec: LaunchSpec, order: ToolTrialOrder, timeout_s: float) -> bytes:
        """Raise Conflict: no node has the files of the trial."""
        raise Conflict(
            _(
                "Tools are tried only where agents run as processes or in Docker. Update the agent, and ask"
                " it to use the tool."
            )
        )

    async def unavailable_reason(self) -> str:
        """Return why the API server does not answer, or an empty string."""
        try:
            await self._api.ping()
        except ChoirError as error:
            return error.message
        return ""

    def limitations(self) -> tuple[str, ...]:
        """Return an empty tuple: the nodes confine agents, and each agent logs what its calls lack."""
        return ()

    def call_limits(self) -> str:
        """Return that a pod's limits cover the agent with its calls, and who limits processes."""
        return _(
            "tool calls are limited by the pod of their agent; their number of processes by podPidsLimit of"
            " the nodes"
        )

    async def remove_orphans(self) -> int:
        """Remove the pods that an earlier control process left behind; return how many.

        Returns when their processes have ended. Raises Unavailable.
        """
        pod_list = await self._api.list_pods(installation_labels(self._site))
        own = {agent.uid for agent in self._agents.values()}
        orphans = [
            pod for pod in pod_list.pods if uid_of(pod) not in own and not is_cleared_up(pod)
        ]
        await asyncio.gather(*(self._remove_orphan(pod) for pod in orphans))
        return len(orphans)

    async def claim_address(self) -> None:
        """Label this process's pod as the leader's, and no other. Raises Unavailable."""
        own = socket.gethostname()  # a pod's host name is its name
        labels = {LEADER: self._site.claim}
        listed = await self._api.list_pods(labels)
        names = {str(pod["metadata"]["name"]) for pod in listed.pods}
        for name in names - {own}:
            await self._api.label(name, {LEADER: None})
        if own not in names:
            await self._api.label(own, labels)
            log.info("clients are led here", pod=own)

    async def close(self) -> None:
        """Kill the agents that still run and release the adapter's resources; idempotent."""
        if not self._closed:
            agents = [agent for agent in self._agents.values() if agent.uid]
            await asyncio.gather(*(self._kill(agent) for agent in agents))
            await self.hand_over()

    async def hand_over(self) -> None:
        """Release the adapter's resources; the next leader removes the agents, as after a crash."""
        if self._closed:
            return
        self._closed = True
        await self._watcher.stop()
        outputs = [agent.output for agent in self._agents.values() if agent.output is not None]
        await asyncio.gather(*(output.settled(0) for output in outputs))
        for task in self._watchers:
            task.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        await asyncio.to_thread(self._logs.close)
        await self._api.close()
        self._end_exits()

    def note_pod(self, pod: Pod, *, is_deletion: bool) -> None:
        """Note the newest description of a pod, or its last."""
        for agent in self._agents.values():
            if agent.uid == uid_of(pod):
                agent.note(pod, is_deletion=is_deletion)

    def note_pods(self, pods: list[Pod]) -> None:
        """Note which agents' pods have ended or are gone."""
        by_uid = {uid_of(pod): pod for pod in pods}
        for agent in self._agents.values():
            if agent.uid in by_uid:
                agent.note(by_uid[agent.uid])
            elif agent.uid:
                # It may have started after the list was made: `_follow` reads its pod first.
                agent.died.set()

    async def _kill(self, agent: PodAgent) -> None:
        try:
            await self._end(agent, AT_ONCE_S)
        except ChoirError as error:
            log.warning("cannot end an agent", agent=agent.spec.agent_id, error=error.message)

    async def _end(self, agent: PodAgent, grace_s: int) -> None:
        """Delete the agent's pod, and wait until its exit has been reported."""
        await remove_pod(self._api, agent.name, agent.uid, grace_s, KILLED_WITHIN_S)
        agent.died.set()  # the API server confirmed the end; the event may come later
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILLED_WITHIN_S):
                await agent.removed.wait()

    async def _follow(self, agent: PodAgent) -> None:
        """Wait for the exit, complete the log, remove the pod, and report the exit."""
        spec = agent.spec
        while True:
            await agent.died.wait()
            try:
                pod = await self._api.read(agent.name)
            except ChoirError as error:
                log.warning("cannot read an agent's pod", agent=spec.agent_id, error=error.message)
                await asyncio.sleep(RETRY_S)
                continue
            if pod is None or uid_of(pod) != agent.uid:
                await self._await_last_event(agent)
                break
            agent.newest = pod
            if has_ended(pod):
                break
            agent.died.clear()
        try:
            await self._clear_up(agent)
        except (ChoirError, OSError) as error:
            log.warning("cannot clear up after an agent", agent=spec.agent_id, error=str(error))
        agent.removed.set()
        await self._report(agent, exit_code(agent.newest), describe_exit(agent.newest))

    async def _await_last_event(self, agent: PodAgent) -> None:
        """Wait for the event of a deletion, which has the exit code; it may come after the deletion."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_EVENT_S):
                await agent.deleted.wait()

    async def _clear_up(self, agent: PodAgent) -> None:
        """Wait for the last output, remove the pod, archive the log of an ended session."""
        if agent.output is not None:
            await agent.output.settled(LOG_DRAIN_S)
        await remove_pod(self._api, agent.name, agent.uid, AT_ONCE_S, KILLED_WITHIN_S)
        if agent.session_over:
            await asyncio.to_thread(self._logs.archive, agent.spec.agent_id)

    async def _remove_orphan(self, pod: Pod) -> None:
        """Log what the pod wrote after the earlier control process ended, and remove it."""
        name, agent_id = str(pod["metadata"]["name"]), annotation(pod, AGENT) or "unknown"
        path = self._logs.path(agent_id)
        try:
            since_s = int(time.time() - path.stat().st_mtime) + 1
        except OSError:
            since_s = 24 * 3600
        text = await self._api.read_log(name, since_s)
        writer = await asyncio.to_thread(
            self._logs.session_writer, agent_id, annotation(pod, SESSION)
        )
        writer.feed(text)
        writer.finish()
        await remove_pod(self._api, name, uid_of(pod), AT_ONCE_S, KILLED_WITHIN_S)
        log.info("removed an orphaned agent", pod=name, epoch=annotation(pod, EPOCH))


def _check_directories(spec: LaunchSpec) -> None:
    """Refuse a missing directory, which a node would create as root. Raises Unavailable."""
    for path in (spec.workspace, spec.choir_dir):
        if not path.is_dir():
            raise Unavailable(
                _("Cannot start {agent_id}: there is no directory {path}.").format(
                    agent_id=spec.agent_id, path=path
                )
            )
