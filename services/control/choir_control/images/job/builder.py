"""Image builder of the kubernetes runtime with a registry: each image is built by a Job and pushed.

An image is its digest in the registry; it exists only when it is complete. Control holds no credential of
the registry. Jobs have a fixed name for each agent, so a build that control did not see to its end is
replaced by the next, or removed when control starts.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Protocol

import structlog

from choir_common.errors import ChoirError, Conflict, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_control.images.builder import BuildInput, Image, ImageKind, ProgressReporter
from choir_control.images.image_files import recipe_commits
from choir_control.images.job.context import make_context
from choir_control.images.job.manifest import (
    BUILD_STEP,
    FETCH,
    BuiltImage,
    JobSite,
    job_labels,
    job_manifest,
    job_name,
)
from choir_control.images.job.outcome import (
    Object,
    has_begun,
    has_finished,
    is_found,
    result,
    start_fault,
)

log = structlog.get_logger("choir.images")

POLL_S = 0.5
START_S = 180.0
"""Time for a node to be found or added, and to pull the builder's image, in seconds."""
GONE_WITHIN_S = 60.0
LOG_WITHIN_S = 10.0
"""Time for the log's last lines after the end, in seconds."""


class JobApi(Protocol):
    """Client of the cluster's API for builds. Methods raise Unavailable."""

    async def create_job(self, manifest: JsonObject) -> None:
        """Create a Job. Raises Conflict when its name is taken."""

    async def read_job(self, name: str) -> Object | None:
        """Return a Job, or None if there is none."""

    async def read_pod_of(self, job: str) -> Object | None:
        """Return the newest pod of a Job, or None if there is none."""

    async def list_jobs(self, labels: Mapping[str, str]) -> list[str]:
        """Return the names of the Jobs with these labels."""

    async def delete_job(self, name: str) -> None:
        """Delete a Job, which is gone when its pod is."""

    async def send_input(self, pod: str, container: str, data: bytes, within_s: float) -> None:
        """Send `data` to the standard input of a container, and return when it has ended."""

    def follow_log(
        self, name: str, since_s: int | None = None, container: str = ""
    ) -> AsyncIterator[bytes]:
        """Yield a container's output to its end."""

    async def close(self) -> None:
        """Close the connections."""


class JobImageBuilder:
    """`ImageBuilder` with images in a registry."""

    kind: ImageKind = "docker"

    def __init__(self, site: JobSite, api: JobApi) -> None:
        self._site = site
        self._api = api

    async def build(self, recipe: BuildInput, report: ProgressReporter) -> Image:
        """Build the image in a Job and push it. Raises InvalidRequest, Unavailable."""
        report.progress("building tools and system packages", 0.6)
        context = await asyncio.to_thread(make_context, recipe)
        name = job_name(self._site, recipe.agent_id)
        await self._create(name, job_manifest(self._site, recipe.agent_id, context))
        try:
            built = await self._follow(name, context, report)
        finally:
            # also when cancelled: the Job must not go on for a build that nobody waits for
            await asyncio.shield(self._remove(name))
        version = built.version
        if (version.agent_id, self._commits(built)) != (recipe.agent_id, recipe_commits(recipe)):
            raise Unavailable(
                _("The build's pod returned the image of another build. Build again.")
            )
        place = f"{self._site.repository}@{built.digest}"
        report.output(f"built {place}")
        return Image("docker", place, version)

    async def is_outdated(self, image: Image) -> bool:
        """Return True: only a build sees the registry, and it returns an image that is current at once."""
        return True

    async def remove_unneeded(
        self, agent_id: str, needed_versions: Collection[str]
    ) -> tuple[str, ...]:
        """Return nothing: the registry has its own retention, and control no credential for it."""
        return ()

    def unsupported_instructions(self, recipe: BuildInput) -> tuple[str, ...]:
        """Return nothing: a Job executes every instruction of a Dockerfile."""
        return ()

    async def find_drift(self, image: Image) -> str | None:
        """Return why an image is not one of this repository, or None; a digest cannot change."""
        if image.place.startswith(f"{self._site.repository}@sha256:"):
            return None
        return f"{image.place[:80]} is not in {self._site.repository}"

    async def remove_orphans(self) -> int:
        """Remove the builds that an earlier control process left; return how many. Raises Unavailable."""
        names = await self._api.list_jobs(job_labels(self._site))
        for name in names:
            await self._api.delete_job(name)
            log.info("removed an orphaned build", job=name)
        return len(names)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    @staticmethod
    def _commits(built: BuiltImage) -> tuple[str, str]:
        return built.version.global_repo_commit, built.version.agent_repo_commit

    async def _create(self, name: str, manifest: JsonObject) -> None:
        """Create the Job; one of an earlier build is removed first."""
        with contextlib.suppress(Conflict):
            await self._api.create_job(manifest)
            return
        await self._remove(name)
        until = time.monotonic() + GONE_WITHIN_S
        while await self._api.read_job(name) is not None:
            if time.monotonic() > until:
                raise Unavailable(
                    _("The earlier build {name} does not end. Try again.").format(name=name)
                )
            await asyncio.sleep(POLL_S)
        await self._api.create_job(manifest)

    async def _follow(self, name: str, context: bytes, report: ProgressReporter) -> BuiltImage:
        """Give the Job its context, report its log, and return its result."""
        pod = await self._wait(name, lambda pod: has_begun(pod, FETCH), START_S)
        if pod is not None:
            pod_name = str(pod["metadata"]["name"])
            await self._api.send_input(pod_name, FETCH, context, self._site.timeout_s)
            await self._wait(name, lambda pod: has_begun(pod, BUILD_STEP), START_S)
            pod = await self._api.read_pod_of(name)
        if pod is not None and has_begun(pod, BUILD_STEP):
            await self._report_log(name, str(pod["metadata"]["name"]), report)
        report.progress("finishing the image", 0.9)
        await self._wait(name, lambda _pod: False, self._site.timeout_s)
        job = await self._api.read_job(name) or {}
        pod = await self._api.read_pod_of(name)
        built = result(job, pod)
        if is_found(pod):
            report.output(f"{self._site.repository} already has this image")
        return built

    async def _wait(
        self, name: str, reached: Callable[[Object], bool], within_s: float
    ) -> Object | None:
        """Return the pod when it has reached something; None when the build has ended."""
        until = time.monotonic() + within_s + POLL_S
        while True:
            job, pod = await self._api.read_job(name), await self._api.read_pod_of(name)
            if job is None or has_finished(job, pod):
                return None
            if pod is not None and reached(pod):
                return pod
            if pod is not None and (fault := start_fault(pod)):
                raise fault
            if time.monotonic() > until:
                raise Unavailable(
                    _(
                        "The build {name} makes no progress within {within_s:.0f} s. `kubectl -A "
                        "describe job {name}` has the reason."
                    ).format(name=name, within_s=within_s)
                )
            await asyncio.sleep(POLL_S)

    async def _report_log(self, name: str, pod: str, report: ProgressReporter) -> None:
        """Report the lines of the build's log until it ends."""
        following = asyncio.create_task(self._copy_log(pod, report), name=f"log of {name}")
        try:
            while not following.done():
                job, now = await self._api.read_job(name), await self._api.read_pod_of(name)
                is_over = job is None or has_finished(job, now)
                await asyncio.wait({following}, timeout=LOG_WITHIN_S if is_over else POLL_S)
                if is_over:
                    return
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _copy_log(self, pod: str, report: ProgressReporter) -> None:
        rest = b""
        try:
            async for chunk in self._api.follow_log(pod, container=BUILD_STEP):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if text := line.decode("utf-8", "replace").rstrip():
                        report.output(text)
        except Unavailable as error:
            report.output(f"warning: {error.message}")

    async def _remove(self, name: str) -> None:
        try:
            await self._api.delete_job(name)
        except ChoirError as error:
            log.warning("a build was not removed", job=name, error=error.message)
