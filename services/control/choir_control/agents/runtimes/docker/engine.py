"""Blocking client of the Docker engine; the only importer of its SDK in this package.

Its methods are called in threads. Failures become `Unavailable` with a readable message. The engine's
own messages contain container names and paths, but no secrets.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]  # it ships no types
from docker import errors as docker_errors

from choir_common.errors import Conflict, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject

LOCAL = "unix:///var/run/docker.sock"
TIMEOUT_S = 30
LOG_LINES = 2_000


@dataclass(frozen=True, slots=True)
class Container:
    """A container in the engine's list."""

    id: str
    labels: Mapping[str, str]
    running: bool


@dataclass(frozen=True, slots=True)
class ContainerState:
    """State of a container, or how it ended."""

    running: bool
    code: int
    out_of_memory: bool
    error: str


class DockerEngine:
    """Client of one Docker engine; connects on first use."""

    def __init__(self, address: str = LOCAL) -> None:
        """`address` is `unix://` and a path, or a URL."""
        self._address = address
        self._connecting = threading.Lock()
        self._client: Any = None

    def _api(self) -> Any:
        with self._connecting:
            if self._client is None:
                path = Path(self._address.removeprefix("unix://"))
                if self._address.startswith("unix://") and not path.is_socket():
                    raise FileNotFoundError(_("there is no socket at {path}").format(path=path))
                self._client = docker.APIClient(
                    base_url=self._address, version="auto", timeout=TIMEOUT_S
                )
            return self._client

    def create(self, name: str, body: JsonObject) -> str:
        """Create a container and return its id; replace a stopped one of the same name.

        Raises Conflict when a running container has the name, and Unavailable when it cannot be created.
        """
        with _translate_errors(_("create the container")):
            api = self._api()
            try:
                return str(api.create_container_from_config(body, name)["Id"])
            except docker_errors.APIError as error:
                if error.status_code != HTTPStatus.CONFLICT:
                    raise
            container = api.inspect_container(name)
            if container["State"]["Running"]:
                raise Conflict(_("The container {name} already runs.").format(name=name))
            api.remove_container(container["Id"], force=True, v=True)
            return str(api.create_container_from_config(body, name)["Id"])

    def start(self, container_id: str, first_line: bytes) -> None:
        """Start a container with `first_line` as its whole standard input.

        Raises Unavailable.
        """
        with _translate_errors(_("start the container")):
            api = self._api()
            # Attached before the start, so that the input waits for the reader.
            stream = api.attach_socket(container_id, params={"stdin": 1, "stream": 1})
            # Only closing the response closes the stream, its socket and the connection together.
            with contextlib.closing(stream._response):
                api.start(container_id)
                stream._sock.sendall(first_line)
                stream._sock.shutdown(socket.SHUT_WR)

    def stop(self, container_id: str, grace_s: float) -> None:
        """Stop a container with SIGTERM, and kill it after `grace_s` seconds. Raises Unavailable."""
        with _translate_errors(_("stop the container")), _ignore_missing():
            # The SDK adds this time to its own request timeout.
            self._api().stop(container_id, timeout=max(0, round(grace_s)))

    def kill(self, container_id: str) -> None:
        """Kill all processes of a container. Raises Unavailable."""
        with _translate_errors(_("kill the container")), _ignore_missing():
            self._api().kill(container_id)

    def remove(self, container_id: str) -> None:
        """Kill and remove a container. Raises Unavailable."""
        with _translate_errors(_("remove the container")), _ignore_missing():
            self._api().remove_container(container_id, force=True, v=True)

    def ping(self) -> None:
        """Check that the engine answers. Raises Unavailable."""
        with _translate_errors(_("reach the engine")):
            self._api().ping()

    def list_containers(self, labels: Mapping[str, str]) -> list[Container]:
        """Return all containers with these labels, running or not. Raises Unavailable."""
        with _translate_errors(_("list containers")):
            containers = self._api().containers(all=True, filters=_filter(labels))
        return [
            Container(item["Id"], item["Labels"] or {}, item["State"] == "running")
            for item in containers
        ]

    def state(self, container_id: str) -> ContainerState | None:
        """Return a container's state, or None if the engine does not know it.

        Raises Unavailable.
        """
        with _translate_errors(_("inspect the container")):
            try:
                state = self._api().inspect_container(container_id)["State"]
            except docker_errors.NotFound:
                return None
        return ContainerState(
            bool(state["Running"]),
            int(state["ExitCode"]),
            bool(state["OOMKilled"]),
            str(state["Error"]),
        )

    def wait(self, container_id: str, timeout_s: float) -> int:
        """Return the exit code of a container after its end. Raises Unavailable, also at the timeout."""
        with _translate_errors(_("wait for the container")):
            return int(self._api().wait(container_id, timeout=timeout_s)["StatusCode"])

    def read_output(self, container_id: str) -> tuple[bytes, bytes]:
        """Return the whole standard output and standard error of a container. Raises Unavailable."""
        with _translate_errors(_("read the container's output")):
            output, errors = (
                self._api().logs(container_id, stdout=not is_error, stderr=is_error)
                for is_error in (False, True)
            )
        return bytes(output), bytes(errors)

    def read_log(self, container_id: str, since: int) -> bytes:
        """Return the newest output of a container after `since` (Unix seconds); empty if it is gone.

        Raises Unavailable.
        """
        with _translate_errors(_("read the container's log")):
            try:
                return bytes(self._api().logs(container_id, tail=LOG_LINES, since=since))
            except docker_errors.NotFound:
                return b""

    def follow_log(self, container_id: str) -> Iterator[bytes]:
        """Yield a container's output from its start to its end. Raises Unavailable."""
        with _translate_errors(_("follow the container's log")), _ignore_missing():
            yield from self._api().logs(container_id, stream=True, follow=True)

    def follow_exits(self, labels: Mapping[str, str], since: int) -> "ContainerExitStream":
        """Open a stream of containers that exit, from `since` (Unix time in seconds). Raises Unavailable."""
        filters = {**_filter(labels), "type": ["container"], "event": ["die"]}
        with _translate_errors(_("follow the engine's events")):
            return ContainerExitStream(
                self._api().events(since=since, filters=filters, decode=True)
            )

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


class ContainerExitStream:
    """Iterator over the ids of containers that exit, until the engine closes the stream."""

    def __init__(self, events: Any) -> None:
        self._events = events

    def __iter__(self) -> Iterator[str]:
        return (str(event["Actor"]["ID"]) for event in self._events)

    def interrupt(self) -> None:
        """End the iteration; callable from any thread."""
        self._events.close()

    def close(self) -> None:
        """Close the connection, which the SDK only shuts down; call it from the iterating thread."""
        self._events.close()
        self._events._response.close()


def _filter(labels: Mapping[str, str]) -> dict[str, list[str]]:
    return {"label": [f"{name}={value}" for name, value in labels.items()]}


@contextlib.contextmanager
def _ignore_missing() -> Iterator[None]:
    """Ignore errors for a container that is gone or not running."""
    try:
        yield
    except docker_errors.NotFound:
        return
    except docker_errors.APIError as error:
        # 409: it is not running, or its removal is in progress
        if error.status_code != HTTPStatus.CONFLICT:
            raise


@contextlib.contextmanager
def _translate_errors(action: str) -> Iterator[None]:
    """Convert the SDK's errors to Choir's."""
    try:
        yield
    except docker_errors.ImageNotFound as error:
        raise Unavailable(
            _(
                "Cannot {action}: {explanation}. Build the agent image (docker compose build agent) or set "
                "CHOIR_AGENT_IMAGE."
            ).format(action=action, explanation=error.explanation)
        ) from error
    except docker_errors.APIError as error:
        raise Unavailable(
            _("Cannot {action}: the engine reports: {explanation}").format(
                action=action, explanation=error.explanation
            )
        ) from error
    except (docker_errors.DockerException, OSError) as error:
        # the SDK's HTTP client raises subclasses of OSError
        raise Unavailable(
            _(
                "Cannot {action}: the Docker engine does not respond ({error}). Is it running, and may "
                "control open its socket?"
            ).format(action=action, error=str(error))
        ) from error
