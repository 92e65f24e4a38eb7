"""Copy of a container's output to its agent's log while it runs. Used by `DockerRuntime`.

One thread per container reads the SDK's blocking stream; it ends with the container.
"""

import threading
import time

import structlog

from choir_common.errors import ChoirError
from choir_common.logs.pump import Allowance, LineWriter
from choir_control.runtimes.docker.engine import Engine

log = structlog.get_logger()


class ContainerOutput:
    """Reader of the output of one container."""

    def __init__(self, engine: Engine, container_id: str, writer: LineWriter) -> None:
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
        allowance = Allowance()
        try:
            for chunk in self._engine.follow_log(self._container_id):
                self._writer.feed(chunk)
                time.sleep(allowance.spend(len(chunk)))
        except (ChoirError, OSError) as error:
            log.warning("an agent's log breaks off", container=self._container_id, error=str(error))
        finally:
            self._writer.finish()
