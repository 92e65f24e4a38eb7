"""Tasks that follow pods: changes of all pods of an installation, and the output of each.

A broken watch is opened again, and what happened meanwhile is found by listing.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Protocol

import structlog

from choir_common.backoff import Backoff
from choir_common.errors import ChoirError
from choir_common.logs.pump import LineWriter, TokenBucket
from choir_control.agents.runtimes.kubernetes.api import PodApi
from choir_control.agents.runtimes.kubernetes.pod_state import Pod

log = structlog.get_logger()

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0


class PodListener(Protocol):
    """Receiver of changes of pods."""

    def note_pod(self, pod: Pod, *, is_deletion: bool) -> None:
        """Note the newest description of a pod, or its last."""

    def note_pods(self, pods: list[Pod]) -> None:
        """Compare the existing pods with the known ones; called at each connect."""


class PodWatcher:
    """Task that passes changes of labelled pods to a listener."""

    def __init__(self, api: PodApi, labels: Mapping[str, str], listener: PodListener) -> None:
        self._api = api
        self._labels = dict(labels)
        self._listener = listener
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to watch, unless it runs."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="watch of pods")

    async def stop(self) -> None:
        """Stop to watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            try:
                pod_list = await self._api.list_pods(self._labels)
                self._listener.note_pods(pod_list.pods)
                async for event in self._api.watch(self._labels, pod_list.version):
                    self._listener.note_pod(event.pod, is_deletion=event.is_deletion)
                backoff.reset()
            except ChoirError as error:
                log.warning("cannot watch pods, retrying", error=error.message)
            except Exception:
                log.exception("watch of pods failed, retrying")
            await asyncio.sleep(backoff.pause_s())


class PodLogReader:
    """Reader of the output of one pod, from its start to its end."""

    def __init__(self, api: PodApi, name: str, writer: LineWriter) -> None:
        """Start to read; the pod already runs."""
        self._api = api
        self._name = name
        self._writer = writer
        self._has_ended = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"log of {name}")

    async def settled(self, within_s: float) -> None:
        """Wait until all output is in the file, for at most `within_s` seconds; then stop to read."""
        self._has_ended.set()
        await asyncio.wait({self._task}, timeout=within_s)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        allowance, backoff = TokenBucket(), Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        since_s: int | None = None
        try:
            while True:
                read_at = time.monotonic()
                try:
                    async for chunk in self._api.follow_log(self._name, since_s):
                        self._writer.feed(chunk)
                        read_at = time.monotonic()
                        await asyncio.sleep(allowance.spend(len(chunk)))
                except ChoirError as error:
                    log.warning("agent log interrupted", pod=self._name, error=error.message)
                if self._has_ended.is_set():
                    return
                # the stream also ends when the connection does; lines of one second may repeat
                pause_s = backoff.pause_s()
                await self._wait_for_end(pause_s)
                since_s = int(time.monotonic() - read_at) + 1
        finally:
            self._writer.finish()

    async def _wait_for_end(self, within_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._has_ended.wait()
