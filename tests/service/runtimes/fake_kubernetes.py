"""A strict API server for pods over real HTTP, whose only node runs programs as child processes.

It has what the runtime uses: create, read, list, watch, delete with grace, logs and attach (protocol
v4.channel.k8s.io). Names, selectors and query parameters that a real API server refuses are refused.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from tests.security.runtimes.confined import PRELUDE

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
TOKEN = "token-of-controls-service-account"
NAMESPACE = "choir"
POLL_S = 0.01


@dataclass
class FakePod:
    """A pod, the process behind it, and who waits for it."""

    body: dict[str, Any]
    process: asyncio.subprocess.Process | None = None
    output: bytes = b""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """Return the pod's name."""
        return str(self.body["metadata"]["name"])


class FakeKubernetes:
    """The API server and its node; `volume` is what the claim contains."""

    def __init__(self, images: dict[str, str]) -> None:
        self.images = images
        self.volumes: dict[str, Path] = {}
        self.pods: dict[str, FakePod] = {}
        self.url = ""
        self.is_cut_off = False
        """Whether the node does not hear of deletions."""
        self.clear_up_s = 0.0
        """Time between the end of a deleted pod's process and the end of its object, in seconds."""
        self._version = 0
        self._events: list[tuple[int, str, dict[str, Any]]] = []
        self._watches: set[web.StreamResponse] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Serve on a free port until the block ends."""
        app = web.Application(middlewares=[_authenticate])
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        app.router.add_post(pods, self._create)
        app.router.add_get(pods, self._list)
        app.router.add_get(pods + "/{name}", self._read)
        app.router.add_delete(pods + "/{name}", self._delete)
        app.router.add_patch(pods + "/{name}", self._patch)
        app.router.add_get(pods + "/{name}/log", self._log)
        app.router.add_get(pods + "/{name}/attach", self._attach)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield
        finally:
            for pod in [*self.pods.values()]:
                self.signal(pod, signal.SIGKILL)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await runner.cleanup()

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig of this server."""
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
                    "users": [{"name": "choir", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "choir"}}],
                    "current-context": "fake",
                }
            )
        )
        return path

    def signal(self, pod: FakePod, number: int) -> None:
        """Send a signal to a pod's process."""
        if pod.process is not None and pod.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                pod.process.send_signal(number)

    def remove(self, pod: FakePod) -> None:
        """Remove a pod without its node, as a forced deletion does."""
        self.signal(pod, signal.SIGKILL)
        if self.pods.pop(pod.name, None) is pod:
            self._tell("DELETED", pod)

    def cut_watches(self) -> None:
        """Break the connections of all watches."""
        for response in self._watches:
            transport = response._req.transport if response._req is not None else None
            if transport is not None:
                transport.abort()

    async def _create(self, request: web.Request) -> web.Response:
        body = await request.json()
        metadata = body["metadata"]
        if len(metadata["name"]) > 253 or not NAME.fullmatch(metadata["name"]):
            return _status(422, f"invalid name {metadata['name']!r}")
        if not all(LABEL_VALUE.fullmatch(value) for value in metadata["labels"].values()):
            return _status(422, f"invalid label in {metadata['labels']}")
        if metadata["name"] in self.pods:
            return _status(409, f'pods "{metadata["name"]}" already exists')
        self._version += 1
        metadata.update(uid=f"uid-{self._version}", namespace=NAMESPACE)
        body["status"] = {"phase": "Pending"}
        pod = self.pods[metadata["name"]] = FakePod(body)
        self._tell("ADDED", pod)
        self._spawn(self._run(pod))
        return web.json_response(body, status=201)

    async def _read(self, request: web.Request) -> web.Response:
        pod = self.pods.get(request.match_info["name"])
        return web.json_response(pod.body) if pod else _missing(request)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        known = {"labelSelector", "limit", "watch", "resourceVersion", "timeoutSeconds"}
        if unknown := set(request.query) - known:
            return _status(400, f"unknown parameters {unknown}")
        selected = _selector(request.query.get("labelSelector", ""))
        if request.query.get("watch", "").lower() == "true":
            return await self._watch(request, selected)
        items = [pod.body for pod in self.pods.values() if selected(pod.body)]
        version = {"resourceVersion": str(self._version)}
        return web.json_response({"kind": "PodList", "metadata": version, "items": items})

    async def _watch(
        self, request: web.Request, selected: Callable[[dict[str, Any]], bool]
    ) -> web.StreamResponse:
        seen = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._watches.add(response)
        try:
            async with asyncio.timeout(float(request.query["timeoutSeconds"])):
                while True:
                    newest = self._version
                    for version, kind, body in [*self._events]:
                        if seen < version <= newest and selected(body):
                            line = json.dumps({"type": kind, "object": body})
                            await response.write(line.encode() + b"\n")
                    seen = newest
                    await asyncio.sleep(POLL_S)
        except (TimeoutError, ConnectionError):
            return response
        finally:
            self._watches.discard(response)

    async def _delete(self, request: web.Request) -> web.Response:
        pod = self.pods.get(request.match_info["name"])
        if pod is None:
            return _missing(request)
        options = await request.json()
        if options["preconditions"]["uid"] != pod.body["metadata"]["uid"]:
            return _status(409, "the UID in the precondition does not match")
        grace_s = int(options["gracePeriodSeconds"])
        if grace_s == 0 or pod.process is None:
            self.remove(pod)
        else:
            pod.body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._tell("MODIFIED", pod)
            if not self.is_cut_off:
                self._spawn(self._terminate(pod, grace_s))
        return web.json_response(pod.body)

    async def _patch(self, request: web.Request) -> web.Response:
        pod = self.pods.get(request.match_info["name"])
        if pod is None:
            return _missing(request)
        if request.content_type != "application/strategic-merge-patch+json":
            return _status(415, f"not a merge patch: {request.content_type}")
        (labels,) = (await request.json())["metadata"].values()
        own = pod.body["metadata"]["labels"]
        for name, value in labels.items():
            own.pop(name, None)
            own.update({} if value is None else {name: value})
        self._tell("MODIFIED", pod)
        return web.json_response(pod.body)

    async def _log(self, request: web.Request) -> web.StreamResponse:
        pod = self.pods.get(request.match_info["name"])
        if pod is None:
            return _missing(request)
        if pod.process is None:
            return _status(400, "container is waiting to start")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        sent = 0
        while True:
            pod.changed.clear()
            await response.write(pod.output[sent:])
            sent = len(pod.output)
            if pod.ended.is_set() or request.query.get("follow", "").lower() != "true":
                return response
            await pod.changed.wait()

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        pod = self.pods.get(request.match_info["name"])
        if pod is None or pod.process is None or pod.process.stdin is None:
            return _status(400, "the container is not running")
        if request.query.get("stdin", "").lower() != "true" or not _stdin_once(pod.body):
            return _status(400, "nothing to attach")
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        if socket.ws_protocol is None:
            raise AssertionError("the client offered no protocol of Kubernetes")
        async for message in socket:
            if message.type is WSMsgType.BINARY and message.data[:1] == b"\x00":
                pod.process.stdin.write(message.data[1:])
                await pod.process.stdin.drain()
        pod.process.stdin.close()  # stdinOnce: the first client that leaves ends the input
        return socket

    async def _run(self, pod: FakePod) -> None:
        """Do what a node does with a pod."""
        spec = pod.body["spec"]
        container = spec["containers"][0]
        code = self.images.get(container["image"])
        if code is None:
            fault = {"reason": "ErrImageNeverPull", "message": "the image is not present"}
            self._set_state(pod, "Pending", {"waiting": fault})
            return
        volume = self.volumes[spec["volumes"][0]["persistentVolumeClaim"]["claimName"]]
        mounts = {
            it["mountPath"]: volume / it.get("subPath", "") for it in container["volumeMounts"]
        }
        program = (PRELUDE + code).replace("/choir/", f"{mounts['/choir']}/")
        pod.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            program,
            cwd=mounts[container["workingDir"]],
            env={it["name"]: it["value"] for it in container["env"]} | {"PATH": os.defpath},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._set_state(pod, "Running", {"running": {}})
        assert pod.process.stdout is not None
        while chunk := await pod.process.stdout.read(65_536):
            pod.output += chunk
            pod.changed.set()
        code_ = await pod.process.wait()
        exit_code = 128 - code_ if code_ < 0 else code_
        pod.ended.set()
        pod.changed.set()
        phase = "Failed" if exit_code else "Succeeded"
        self._set_state(pod, phase, {"terminated": {"exitCode": exit_code, "reason": "Error"}})

    async def _terminate(self, pod: FakePod, grace_s: int) -> None:
        self.signal(pod, signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await pod.ended.wait()
        except TimeoutError:
            self.signal(pod, signal.SIGKILL)
            await pod.ended.wait()
        # the node reports the exit code before it confirms the deletion
        await asyncio.sleep(self.clear_up_s)
        if self.pods.pop(pod.name, None) is pod:
            self._tell("DELETED", pod)

    def _set_state(self, pod: FakePod, phase: str, state: dict[str, Any]) -> None:
        pod.body["status"] = {
            "phase": phase,
            "containerStatuses": [{"name": "agent", "state": state}],
        }
        if self.pods.get(pod.name) is pod:
            self._tell("MODIFIED", pod)

    def _tell(self, kind: str, pod: FakePod) -> None:
        self._version += 1
        pod.body["metadata"]["resourceVersion"] = str(self._version)
        self._events.append((self._version, kind, json.loads(json.dumps(pod.body))))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@web.middleware
async def _authenticate(request: web.Request, handler: Any) -> web.StreamResponse:
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        return _status(401, "Unauthorized")
    response: web.StreamResponse = await handler(request)
    return response


def _selector(text: str) -> Callable[[dict[str, Any]], bool]:
    wanted = dict(part.split("=", 1) for part in text.split(",") if part)
    return lambda body: wanted.items() <= body["metadata"]["labels"].items()


def _stdin_once(body: dict[str, Any]) -> bool:
    container = body["spec"]["containers"][0]
    return bool(container.get("stdin")) and bool(container.get("stdinOnce"))


def _status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": message}, status=code)


def _missing(request: web.Request) -> web.Response:
    return _status(404, f'pods "{request.match_info["name"]}" not found')
