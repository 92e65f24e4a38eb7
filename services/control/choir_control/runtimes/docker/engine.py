"""Speak to the Docker engine: the only importer of its SDK. Every call blocks; `runtime` uses threads.

Called by `runtime` and `deaths`. Failures become `Unavailable` with a sentence; the engine's own texts
name containers and paths, never secrets.
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
from choir_common.wire.json import JsonObject

LOCAL = "unix:///var/run/docker.sock"
TIMEOUT_S = 30
LOG_LINES = 2_000


@dataclass(frozen=True, slots=True)
class Container:
    """A container as the engine lists it."""

    id: str
    labels: Mapping[str, str]
    running: bool


@dataclass(frozen=True, slots=True)
class State:
    """How a container is doing, or how it ended."""

    running: bool
    code: int
    out_of_memory: bool
    error: str


class Engine:
    """One Docker engine; connects when first used."""

    def __init__(self, address: str = LOCAL) -> None:
        """Describe the engine: `unix://` and a path, or a URL."""
        self._address = address
        self._connecting = threading.Lock()
        self._client: Any = None

    def _api(self) -> Any:
        with self._connecting:
            if self._client is None:
                path = Path(self._address.removeprefix("unix://"))
                if self._address.startswith("unix://") and not path.is_socket():
                    raise FileNotFoundError(f"there is no socket at {path}")
                self._client = docker.APIClient(
                    base_url=self._address, version="auto", timeout=TIMEOUT_S
                )
            return self._client

    def create(self, name: str, body: JsonObject) -> str:
        """Create a container and return its id; a dead one of that name and label gives way.

        Raises Conflict when a living one has the name, Unavailable when it cannot be made.
        """
        with _spoken("create the container"):
            api = self._api()
            try:
                return str(api.create_container_from_config(body, name)["Id"])
            except docker_errors.APIError as error:
                if error.status_code != HTTPStatus.CONFLICT:
                    raise
            there = api.inspect_container(name)
            if there["State"]["Running"]:
                raise Conflict(f"The container {name} already runs.")
            api.remove_container(there["Id"], force=True, v=True)
            return str(api.create_container_from_config(body, name)["Id"])

    def start(self, container_id: str, first_line: bytes) -> None:
        """Start a container and give it `first_line` as its whole standard input.

        Raises Unavailable.
        """
        with _spoken("start the container"):
            api = self._api()
            # Attached before the start: what is written waits for the reader.
            stream = api.attach_socket(container_id, params={"stdin": 1, "stream": 1})
            # Only the response around it closes the stream, its socket and the connection together.
            with contextlib.closing(stream._response):
                api.start(container_id)
                stream._sock.sendall(first_line)
                stream._sock.shutdown(socket.SHUT_WR)

    def stop(self, container_id: str, grace_s: float) -> None:
        """Ask a container to end, and kill it after the grace. Raises Unavailable."""
        with _spoken("stop the container"), _gone_is_fine():
            # The SDK waits that much longer than its own timeout.
            self._api().stop(container_id, timeout=max(0, round(grace_s)))

    def kill(self, container_id: str) -> None:
        """Kill everything in a container. Raises Unavailable."""
        with _spoken("kill the container"), _gone_is_fine():
            self._api().kill(container_id)

    def remove(self, container_id: str) -> None:
        """Kill and remove a container. Raises Unavailable."""
        with _spoken("remove the container"), _gone_is_fine():
            self._api().remove_container(container_id, force=True, v=True)

    def ping(self) -> None:
        """Ask whether the engine is there. Raises Unavailable."""
        with _spoken("reach the engine"):
            self._api().ping()

    def list_with(self, labels: Mapping[str, str]) -> list[Container]:
        """Return all containers that carry these labels, living or not. Raises Unavailable."""
        with _spoken("list containers"):
            listed = self._api().containers(all=True, filters=_filter(labels))
        return [
            Container(item["Id"], item["Labels"] or {}, item["State"] == "running")
            for item in listed
        ]

    def state(self, container_id: str) -> State | None:
        """Return how a container is doing, None if the engine does not know it.

        Raises Unavailable.
        """
        with _spoken("inspect the container"):
            try:
                state = self._api().inspect_container(container_id)["State"]
            except docker_errors.NotFound:
                return None
        return State(
            bool(state["Running"]),
            int(state["ExitCode"]),
            bool(state["OOMKilled"]),
            str(state["Error"]),
        )

    def log_since(self, container_id: str, since: int) -> bytes:
        """Return the newest lines a container wrote after `since` (epoch, seconds), empty if it is gone.

        Raises Unavailable.
        """
        with _spoken("read the container's log"):
            try:
                return bytes(self._api().logs(container_id, tail=LOG_LINES, since=since))
            except docker_errors.NotFound:
                return b""

    def follow_log(self, container_id: str) -> Iterator[bytes]:
        """Yield what a container writes, from its first word to its end. Raises Unavailable."""
        with _spoken("follow the container's log"), _gone_is_fine():
            yield from self._api().logs(container_id, stream=True, follow=True)

    def follow_deaths(self, labels: Mapping[str, str], since: int) -> "DeathStream":
        """Open a stream of the containers that end, from `since` (epoch, seconds). Raises Unavailable."""
        filters = {**_filter(labels), "type": ["container"], "event": ["die"]}
        with _spoken("follow the engine's events"):
            return DeathStream(self._api().events(since=since, filters=filters, decode=True))

    def close(self) -> None:
        """Drop the connections."""
        if self._client is not None:
            self._client.close()


class DeathStream:
    """Yields the ids of containers that end, until the engine hangs up."""

    def __init__(self, events: Any) -> None:
        self._events = events

    def __iter__(self) -> Iterator[str]:
        return (str(event["Actor"]["ID"]) for event in self._events)

    def cut(self) -> None:
        """End the iteration; from any thread."""
        self._events.close()

    def release(self) -> None:
        """Close the connection, which the SDK only shuts down; from the iterating thread."""
        self._events.close()
        self._events._response.close()


def _filter(labels: Mapping[str, str]) -> dict[str, list[str]]:
    return {"label": [f"{name}={value}" for name, value in labels.items()]}


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    """Pass over a container that is gone, or does not run, already."""
    try:
        yield
    except docker_errors.NotFound:
        return
    except docker_errors.APIError as error:
        # 409: it does not run, or its removal is under way
        if error.status_code != HTTPStatus.CONFLICT:
            raise


@contextlib.contextmanager
def _spoken(deed: str) -> Iterator[None]:
    """Turn the SDK's errors into ours."""
    try:
        yield
    except docker_errors.ImageNotFound as error:
        raise Unavailable(
            f"Cannot {deed}: {error.explanation}. Build the agent image "
            "(docker compose build agent) or set CHOIR_AGENT_IMAGE."
        ) from error
    except docker_errors.APIError as error:
        raise Unavailable(f"Cannot {deed}: the engine says: {error.explanation}") from error
    except (docker_errors.DockerException, OSError) as error:
        # what the SDK's own HTTP client raises are OSErrors
        raise Unavailable(
            f"Cannot {deed}: the Docker engine does not answer ({error}). Is it running, and may "
            "control open its socket?"
        ) from error
