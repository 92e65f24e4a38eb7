"""Client of the Kubernetes API for pods; the only importer of its library.

Answers are read as JSON, without the library's models. Failures become `Unavailable` with a readable
message. The API server's messages contain names of pods and images, but no secrets.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes_asyncio import client, config
from kubernetes_asyncio.stream import WsApiClient

from choir_common.errors import Conflict, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_control.agents.runtimes.kubernetes.pod import CONTAINER_NAME
from choir_control.agents.runtimes.kubernetes.pod_state import Pod

OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
REQUEST_S = 30
WATCH_S = 60
"""The API server ends a watch after this time, so a connection that is dead is noticed."""
LOG_LINES = 2_000
STDIN = b"\x00"
"""Number of the channel that is the process's standard input, before each message."""


@dataclass(frozen=True, slots=True)
class PodList:
    """Pods at one moment; `version` is where a watch goes on."""

    pods: list[Pod]
    version: str


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A change of a pod."""

    pod: Pod
    is_deletion: bool


class PodApi:
    """Client for the pods of one namespace; connects at first use."""

    def __init__(self, namespace: str = "", kubeconfig: Path | None = None) -> None:
        """Without a namespace, that of this pod; `kubeconfig` replaces this pod's account."""
        self._namespace = namespace
        self._kubeconfig = kubeconfig
        self._connecting = asyncio.Lock()
        self._api: Any = None
        self._attach_api: Any = None

    async def create(self, manifest: JsonObject) -> Pod:
        """Create a pod. Raises Conflict when its name is taken, and Unavailable."""
        with translate_errors("create the pod"):
            api = await self._connect()
            return await _json(
                api.create_namespaced_pod(self._namespace, manifest, **raw(REQUEST_S))
            )

    async def read(self, name: str) -> Pod | None:
        """Return a pod, or None if there is none. Raises Unavailable."""
        with translate_errors("read the pod"):
            api = await self._connect()
            response = await api.read_namespaced_pod(name, self._namespace, **raw(REQUEST_S))
            if response.status == HTTPStatus.NOT_FOUND:
                response.release()
                return None
            return await checked_json(response)

    async def delete(self, name: str, uid: str, grace_s: int) -> None:
        """Delete a pod: SIGTERM, and SIGKILL after `grace_s` seconds. With 0, do not wait for its node.

        A later pod with that name stays. Raises Unavailable.
        """
        options = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": uid}}
        with translate_errors("delete the pod"):
            api = await self._connect()
            response = await api.delete_namespaced_pod(
                name, self._namespace, body=options, **raw(REQUEST_S)
            )
            if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                response.release()
            else:
                await checked_json(response)

    async def label(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a pod, and remove those that are None. Raises Unavailable."""
        with translate_errors("label the pod"):
            api = await self._connect()
            await _json(
                api.patch_namespaced_pod(
                    name, self._namespace, {"metadata": {"labels": labels}}, **raw(REQUEST_S)
                )
            )

    async def list_pods(self, labels: Mapping[str, str]) -> PodList:
        """Return the pods with these labels. Raises Unavailable."""
        with translate_errors("list pods"):
            api = await self._connect()
            answer = await _json(
                api.list_namespaced_pod(
                    self._namespace, label_selector=selector(labels), **raw(REQUEST_S)
                )
            )
        return PodList(list(answer["items"]), str(answer["metadata"]["resourceVersion"]))

    async def watch(self, labels: Mapping[str, str], version: str) -> AsyncIterator[PodEvent]:
        """Yield changes since `version`, for a minute. Raises Unavailable."""
        with translate_errors("watch pods"):
            api = await self._connect()
            response = await api.list_namespaced_pod(
                self._namespace,
                label_selector=selector(labels),
                resource_version=version,
                watch=True,
                timeout_seconds=WATCH_S,
                **_raw_stream(WATCH_S + REQUEST_S),
            )
            with contextlib.closing(response):
                await _check(response)
                while line := await response.content.readline():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return  # the version is too old: list again
                    yield PodEvent(event["object"], event["type"] == "DELETED")

    async def write_input(self, name: str, data: bytes) -> None:
        """Write `data` as the whole standard input of a pod that runs. Raises Unavailable."""
        with translate_errors("write to the pod"):
            await self._connect()
            connection = await self._attach_api.connect_get_namespaced_pod_attach(
                name,
                self._namespace,
                container=CONTAINER_NAME,
                stdin=True,
                stdout=False,
                stderr=False,
                _preload_content=False,
            )
            async with asyncio.timeout(REQUEST_S), connection as stream:
                await stream.send_bytes(STDIN + data)

    async def follow_log(
        self, name: str, since_s: int | None = None, container: str = CONTAINER_NAME
    ) -> AsyncIterator[bytes]:
        """Yield a container's output to its end; all or of the last `since_s` seconds. Raises Unavailable."""
        with translate_errors("follow the pod's log"):
            api = await self._connect()
            since = {} if since_s is None else {"since_seconds": max(1, since_s)}
            response = await api.read_namespaced_pod_log(
                name,
                self._namespace,
                container=container,
                follow=True,
                **since,
                **_raw_stream(None),
            )
            with contextlib.closing(response):
                await _check(response)
                async for chunk in response.content.iter_any():
                    yield chunk

    async def read_log(self, name: str, since_s: int) -> bytes:
        """Return a pod's output of the last `since_s` seconds; empty if there is none. Raises Unavailable."""
        with translate_errors("read the pod's log"):
            api = await self._connect()
            response = await api.read_namespaced_pod_log(
                name,
                self._namespace,
                since_seconds=max(1, since_s),
                tail_lines=LOG_LINES,
                **raw(REQUEST_S),
            )
            async with response:
                # 400: its container has not started
                return await response.read() if response.status == HTTPStatus.OK else b""

    async def ping(self) -> None:
        """Check that pods can be listed. Raises Unavailable."""
        with translate_errors("reach the API server"):
            api = await self._connect()
            await _json(api.list_namespaced_pod(self._namespace, limit=1, **raw(REQUEST_S)))

    async def close(self) -> None:
        """Close the connections."""
        for api in (self._api, self._attach_api):
            if api is not None:
                await api.api_client.close()

    async def _connect(self) -> Any:
        async with self._connecting:
            if self._api is None:
                settings = client.Configuration()
                # Python 3.13 refuses certificates of authorities without a key identifier, which many
                # clusters have; the chain and the name are verified all the same.
                settings.disable_strict_ssl_verification = True
                if self._kubeconfig is not None:
                    await config.load_kube_config(
                        config_file=str(self._kubeconfig), client_configuration=settings
                    )
                else:
                    config.load_incluster_config(client_configuration=settings)
                self._namespace = self._namespace or await asyncio.to_thread(_own_namespace)
                self._attach_api = client.CoreV1Api(WsApiClient(settings))
                self._api = client.CoreV1Api(client.ApiClient(settings))
            return self._api


def _own_namespace() -> str:
    return OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.exists() else "default"


def raw(total_s: float) -> dict[str, Any]:
    """Return the arguments for an answer that is not parsed by the library; a timeout in seconds."""
    return {"_preload_content": False, "_request_timeout": total_s}


def _raw_stream(silence_s: float | None) -> dict[str, Any]:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_S, sock_read=silence_s)
    return {"_preload_content": False, "_request_timeout": timeout}


def selector(labels: Mapping[str, str]) -> str:
    """Return labels as a query parameter."""
    return ",".join(f"{name}={value}" for name, value in labels.items())


async def _json(call: Awaitable[aiohttp.ClientResponse]) -> dict[str, Any]:
    return await checked_json(await call)


async def checked_json(response: aiohttp.ClientResponse) -> dict[str, Any]:
    """Return an answer. Raises Conflict, and what `translate_errors` converts."""
    async with response:
        await _check(response)
        return dict(await response.json())


class _Refusal(Exception):
    """An answer of the API server other than success."""


async def _check(response: aiohttp.ClientResponse) -> None:
    """Raise Conflict for a name that is taken, and _Refusal for other errors."""
    if response.ok:
        return
    text = (await response.text())[:2_000]
    try:
        message = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        message = text or str(response.reason)
    if response.status == HTTPStatus.CONFLICT:
        raise Conflict(message)
    if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        message += ". Does control's service account have the Role of deploy/kubernetes?"
    raise _Refusal(f"{response.status}: {message}")


@contextlib.contextmanager
def translate_errors(action: str) -> Iterator[None]:
    """Convert the library's errors to Choir's: Conflict, and Unavailable for all others."""
    try:
        yield
    except _Refusal as error:
        raise Unavailable(
            _("Cannot {action}: the API server reports {error}").format(action=action, error=error)
        ) from error
    except config.ConfigException as error:
        raise Unavailable(
            _(
                "Cannot {action}: this process has no account of a Kubernetes cluster ({error}). "
                "CHOIR_RUNTIME=kubernetes is for control in a pod, see docs/kubernetes.md."
            ).format(action=action, error=error)
        ) from error
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise Unavailable(
            _("Cannot {action}: the Kubernetes API server does not respond ({error!r}).").format(
                action=action, error=error
            )
        ) from error
