"""Threads that read the engine's blocking streams: container exits, and containers' output.

A broken exit stream is reopened, and exits missed meanwhile are found by listing. The output of each
container has a thread of its own, which ends with the container.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Protocol

import structlog

from choir_common.backoff import Backoff
from choir_common.errors import ChoirError
from choir_common.logs.pump import LineWriter, TokenBucket
from choir_control.agents.runtimes.docker.engine import ContainerExitStream, DockerEngine

log = structlog.get_logger()

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
# The engine's timestamps here are whole seconds, and the stream opens slightly after the request.
OVERLAP_S = 2
STOPPED_WITHIN_S = 5.0


class ContainerExitListener(Protocol):
    """Receiver of container exits; both methods are called in the event loop."""

    def note_exit(self, container_id: str) -> None:
        """Note that a container has exited."""

    def note_running(self, container_ids: frozenset[str]) -> None:
        """Compare the running containers with the known ones; called at each connect."""


class ContainerExitWatcher:
    """Thread that passes the exits of labelled containers to a listener."""

    def __init__(
        self,
        *,
        engine: DockerEngine,
        labels: Mapping[str, str],
        listener: ContainerExitListener,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._engine = engine
        self._labels = dict(labels)
        self._listener = listener
        self._loop = loop
        self._stopped = threading.Event()
        self._stream_lock = threading.Lock()
        self._stream: ContainerExitStream | None = None
        self._thread = threading.Thread(target=self._run, name="docker-deaths", daemon=True)

    def start(self) -> None:
        """Start the thread, unless it runs or was stopped."""
        if not self._thread.is_alive() and not self._stopped.is_set():
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread; blocks."""
        self._stopped.set()
        with self._stream_lock:
            if self._stream is not None:
                self._stream.interrupt()
        if self._thread.is_alive():
            self._thread.join(STOPPED_WITHIN_S)

    def _run(self) -> None:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while not self._stopped.is_set():
            try:
                self._follow()
                backoff.reset()
            except ChoirError as error:
                log.warning("cannot watch container exits, retrying", error=error.message)
            except Exception:
                log.exception("exit event stream failed, retrying")
            self._stopped.wait(backoff.pause_s())

    def _follow(self) -> None:
        """Listen until the engine closes the stream or the watcher is stopped."""
        events = self._engine.follow_exits(self._labels, int(time.time()) - OVERLAP_S)
        with self._stream_lock:
            self._stream = events
        try:
            if self._stopped.is_set():
                return
            containers = self._engine.list_containers(self._labels)
            running_ids = frozenset(container.id for container in containers if container.running)
            # the event loop may have been closed meanwhile
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._listener.note_running, running_ids)
            for container_id in events:
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._listener.note_exit, container_id)
        finally:
            with self._stream_lock:
                self._stream = None
            events.close()


class ContainerLogReader:
    """Reader of the output of one container."""

    def __init__(self, engine: DockerEngine, container_id: str, writer: LineWriter) -> None:
        """Start to read. The container already runs; its output from the start is included."""
        self._engine = engine
        self._container_id = container_id
        self._writer = writer
        self._thread = threading.Thread(target=self._run, name="container log", daemon=True)
        self._thread.start()

    def settled(self, within_s: float) -> None:
        """Wait until all output is in the file; block for `within_s` seconds at most."""
        self._thread.join(within_s)

    def _run(self) -> None:
        allowance = TokenBucket()
        try:
            for chunk in self._engine.follow_log(self._container_id):
                self._writer.feed(chunk)
                time.sleep(allowance.spend(len(chunk)))
        except (ChoirError, OSError) as error:
            log.warning("agent log incomplete", container=self._container_id, error=str(error))
        finally:
            self._writer.finish()
