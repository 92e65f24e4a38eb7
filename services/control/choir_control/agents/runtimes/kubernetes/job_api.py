"""Client of the Kubernetes API for the Jobs that build images, and for their pods."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from kubernetes_asyncio import client

from choir_common.wire.model import JsonObject
from choir_control.agents.runtimes.kubernetes.api import (
    REQUEST_S,
    STDIN,
    PodApi,
    checked_json,
    raw,
    selector,
    translate_errors,
)

JobObject = dict[str, Any]
"""A Job or a pod as the API server describes it."""
CHUNK_BYTES = 32 << 10


class BuildApi(PodApi):
    """Client for the Jobs and pods of one namespace; connects at first use."""

    async def create_job(self, manifest: JsonObject) -> None:
        """Create a Job. Raises Conflict when its name is taken, and Unavailable."""
        with translate_errors("create the build's Job"):
            jobs = await self._jobs()
            await checked_json(
                await jobs.create_namespaced_job(self._namespace, manifest, **raw(REQUEST_S))
            )

    async def read_job(self, name: str) -> JobObject | None:
        """Return a Job, or None if there is none. Raises Unavailable."""
        with translate_errors("read the build's Job"):
            jobs = await self._jobs()
            response = await jobs.read_namespaced_job(name, self._namespace, **raw(REQUEST_S))
            if response.status == HTTPStatus.NOT_FOUND:
                response.release()
                return None
            return await checked_json(response)

    async def list_jobs(self, labels: Mapping[str, str]) -> list[str]:
        """Return the names of the Jobs with these labels. Raises Unavailable."""
        with translate_errors("list builds"):
            jobs = await self._jobs()
            answer = await checked_json(
                await jobs.list_namespaced_job(
                    self._namespace, label_selector=selector(labels), **raw(REQUEST_S)
                )
            )
        return [str(job["metadata"]["name"]) for job in answer["items"]]

    async def delete_job(self, name: str) -> None:
        """Delete a Job, if there is one; it is gone when its pod is. Raises Unavailable."""
        with translate_errors("delete the build's Job"):
            jobs = await self._jobs()
            response = await jobs.delete_namespaced_job(
                name,
                self._namespace,
                body={"propagationPolicy": "Foreground"},
                **raw(REQUEST_S),
            )
            if response.status == HTTPStatus.NOT_FOUND:
                response.release()
            else:
                await checked_json(response)

    async def read_pod_of(self, job: str) -> JobObject | None:
        """Return the newest pod of a Job, or None if there is none. Raises Unavailable."""
        listed = await self.list_pods({"job-name": job})
        by_time = sorted(listed.pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
        return by_time[-1] if by_time else None

    async def send_input(self, pod: str, container: str, data: bytes, within_s: float) -> None:
        """Send `data` to the standard input of a container, and return when it has ended.

        The container knows how much it must read: the end of the stream could overtake its last bytes.
        Raises Unavailable.
        """
        with translate_errors("send the build's context"):
            await self._connect()
            connection = await self._attach_api.connect_get_namespaced_pod_attach(
                pod,
                self._namespace,
                container=container,
                stdin=True,
                stdout=False,
                stderr=False,
                _preload_content=False,
            )
            async with asyncio.timeout(within_s), connection as stream:
                for start in range(0, len(data), CHUNK_BYTES):
                    await stream.send_bytes(STDIN + data[start : start + CHUNK_BYTES])
                async for _message in stream:
                    pass

    async def _jobs(self) -> Any:
        api = await self._connect()
        return client.BatchV1Api(api.api_client)
