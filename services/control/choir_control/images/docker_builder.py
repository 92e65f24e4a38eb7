"""Image builder of the docker runtime: images built by the engine.

An image is complete once it has its tag, which is the last step; an interrupted build leaves untagged
images only.
"""

import asyncio
import contextlib
import hashlib
import io
import json
import tarfile
import time
from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]  # it ships no types
from docker import errors as docker_errors
from urllib3.exceptions import ReadTimeoutError as TimeoutErrorOfHttp

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_common.identity_dir import SKILLS_DIR, TOOLS_DIR, VERSION_FILE, ImageVersion, hash_files
from choir_control.images.build_context import (
    DOCKERFILE,
    ContextFiles,
    agent_context_files,
    base_context_files,
    base_dockerfile,
    describe_member,
    final_dockerfile,
    image_context_files,
    image_repository,
    make_build_context,
    own_dockerfile,
    tools_dockerfile,
)
from choir_control.images.builder import BuildInput, Image, ImageFile, ImageKind, ProgressReporter
from choir_control.images.image_files import make_version, recipe_commits
from choir_control.settings import ControlSettings

COMMIT_CHARS = 12
MAX_CONTENT_BYTES = 1 << 30
LABEL_AGENT = "choir.agent"
LABEL_GLOBAL_COMMIT = "choir.global_commit"
LABEL_AGENT_COMMIT = "choir.agent_commit"
LABEL_VERSION = "choir.version"
LABEL_HOME = "choir.built_for"
LABEL_PART = "choir.part"
LABEL_AGENT_IMAGE = "choir.agent_image"


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """Resource limits of one build."""

    memory_bytes: int = 2 << 30
    """A large compiler takes one or two gigabytes; swap is not added to the limit."""
    timeout_s: float = 1_800
    """Timeout of each part; a slow package mirror takes minutes."""


def make_builder(settings: ControlSettings) -> "DockerImageBuilder":
    """Return a builder; it connects to the engine at first use."""
    limits = BuildLimits(settings.build_memory_mb << 20, settings.build_within_s)
    return DockerImageBuilder(settings.home, settings.agent_image, limits)


class DockerImageBuilder:
    """`ImageBuilder` with images in the Docker engine."""

    kind: ImageKind = "docker"

    def __init__(self, home: Path, agent_image: str, limits: BuildLimits | None = None) -> None:
        """`agent_image` contains the agent itself; a Dockerfile.base builds on it."""
        self._home = home
        self._agent_image = agent_image
        self._limits = limits or BuildLimits()
        self._client: Any = None
        self._building = 0

    async def build(self, recipe: BuildInput, report: ProgressReporter) -> Image:
        """Build the base, the tools and the agent's image. Raises InvalidRequest, Unavailable."""
        loop = asyncio.get_running_loop()
        self._building += 1
        try:
            return await asyncio.to_thread(self._build, recipe, _ThreadSafeReporter(loop, report))
        finally:
            self._building -= 1

    async def is_outdated(self, image: Image) -> bool:
        """Return whether the agent image has changed since, e.g. by an upgrade. Raises Unavailable."""
        return await asyncio.to_thread(self._outdated, image)

    async def remove_unneeded(
        self, agent_id: str, needed_versions: Collection[str]
    ) -> tuple[str, ...]:
        """Remove all other images of the agent, and unused bases. Raises Unavailable.

        The engine keeps an image that is still in use; it is removed after a later build.
        """
        # while a build runs, its new base has no image built on it yet
        bases_too = self._building == 0
        return await asyncio.to_thread(self._prune, agent_id, needed_versions, bases_too)

    def unsupported_instructions(self, recipe: BuildInput) -> tuple[str, ...]:
        """Return nothing: an engine executes every instruction of a Dockerfile."""
        return ()

    async def find_drift(self, image: Image) -> str | None:
        """Return why the engine's image differs from what was built, or None."""
        return await asyncio.to_thread(self._fault, image)

    async def remove_orphans(self) -> int:
        """Return 0: a build ends with the process that began it."""
        return 0

    async def close(self) -> None:
        """Release nothing."""

    def _api(self) -> Any:
        if self._client is None:
            self._client = docker.APIClient(version="auto", timeout=self._limits.timeout_s)
        return self._client

    def _agent_id(self) -> str:
        """Return the id of the image that contains the agent."""
        return str(self._api().inspect_image(self._agent_image)["Id"])

    def _outdated(self, image: Image) -> bool:
        with _translate_errors(_("inspect the image")):
            labels = self._api().inspect_image(image.place)["Config"]["Labels"] or {}
            return bool(labels.get(LABEL_AGENT_IMAGE) != self._agent_id())

    def _prune(
        self, agent_id: str, needed_versions: Collection[str], bases_too: bool
    ) -> tuple[str, ...]:
        with _translate_errors(_("remove old images")):
            mine = {"label": [f"{LABEL_HOME}={self._home}", f"{LABEL_AGENT}={agent_id}"]}
            old = [
                image
                for image in self._api().images(filters=mine)
                if image["Labels"].get(LABEL_VERSION) not in needed_versions
            ]
            names = [self._remove(image) for image in old]
            if bases_too:
                names += [self._remove(image) for image in self._unused_bases()]
        return tuple(sorted(name for name in names if name))

    def _unused_bases(self) -> list[Any]:
        """Return the bases of this home that no agent's image was built from."""
        images = self._api().images(filters={"label": [f"{LABEL_HOME}={self._home}"]})
        used = {
            (image["Labels"].get(LABEL_GLOBAL_COMMIT), image["Labels"].get(LABEL_AGENT_IMAGE))
            for image in images
            if LABEL_VERSION in image["Labels"]
        }
        return [
            image
            for image in images
            if image["Labels"].get(LABEL_PART) == "base"
            and (image["Labels"].get(LABEL_GLOBAL_COMMIT), image["Labels"].get(LABEL_AGENT_IMAGE))
            not in used
        ]

    def _remove(self, image: Any) -> str:
        """Remove an image that is not in use; return its name, or an empty text if it has none or stays."""
        names = [name for name in image["RepoTags"] or () if name != "<none>:<none>"]
        try:
            for name in names or [image["Id"]]:
                self._api().remove_image(name)
        except docker_errors.APIError as error:
            if error.status_code not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise
            return ""
        return str(names[0]) if names else ""

    def _build(self, recipe: BuildInput, report: ProgressReporter) -> Image:
        with _translate_errors(_("build the image")):
            report.progress(_("building the base image"), 0.6)
            base = self._base(recipe, report)
            report.progress(_("building tools and system packages"), 0.7)
            tools = [piece for piece in recipe.files if piece.path.startswith(f"{TOOLS_DIR}/")]
            with_sources = self._run_build(
                tools_dockerfile(base),
                image_context_files(tools),
                self._labels(recipe, "tools"),
                report,
            )
            built = self._run_build(
                own_dockerfile(recipe, with_sources), agent_context_files(recipe), {}, report
            )
            report.progress(_("finishing the image"), 0.9)
            rest = [piece for piece in recipe.files if piece not in tools]
            return self._finish_image(recipe, built, rest, report)

    def _base(self, recipe: BuildInput, report: ProgressReporter) -> str:
        """Return the base image; it is built again only for another commit or another agent image."""
        text, shared = base_dockerfile(recipe), recipe.global_tree
        if text is None or shared is None:
            return self._agent_image
        # another home or agent image needs its own base
        basis = f"{shared.commit}\n{self._agent_id()}\n{self._home}"
        key = hashlib.sha256(basis.encode()).hexdigest()[:COMMIT_CHARS]
        tag = f"choir-base:{shared.commit[:COMMIT_CHARS]}-{key}"
        if self._exists(tag):
            report.output(_("{tag} already exists").format(tag=tag))
            return tag
        files = base_context_files(recipe)
        labels = {LABEL_GLOBAL_COMMIT: shared.commit, **self._labels(recipe, "base")}
        return self._run_build(
            text, files, labels, report, tag=tag, arguments={"CHOIR_AGENT": self._agent_image}
        )

    def _finish_image(
        self, recipe: BuildInput, built: str, rest: list[ImageFile], report: ProgressReporter
    ) -> Image:
        """Add the remaining files and version.json, check /choir, and tag the image."""
        inner = self._run_build(final_dockerfile(built), image_context_files(rest), {}, report)
        # a base image can bring a VOLUME that no Dockerfile of ours contains
        self._refuse_volumes(inner)
        version = self._describe(recipe.agent_id, recipe_commits(recipe), inner)
        text = version.model_dump_json(indent=2) + "\n"
        tag = f"{image_repository(recipe.agent_id)}:{version.image_version}"
        labels = {
            **self._labels(recipe, "agent"),
            LABEL_GLOBAL_COMMIT: version.global_repo_commit,
            LABEL_AGENT_COMMIT: version.agent_repo_commit,
            LABEL_VERSION: version.image_version,
        }
        image_id = self._run_build(
            f"FROM {inner}\nCOPY {VERSION_FILE} /choir/{VERSION_FILE}\n",
            {VERSION_FILE: (text.encode(), False)},
            labels,
            report,
            tag=tag,
        )
        report.output(f"built {tag}")
        image_digest = str(self._api().inspect_image(image_id)["Id"])
        return Image("docker", image_digest, version)

    def _refuse_volumes(self, image: str) -> None:
        volumes = self._api().inspect_image(image)["Config"].get("Volumes") or {}
        if volumes:
            raise InvalidRequest(
                _(
                    "The image has VOLUME {volumes}: an agent can write to /workspace and /tmp alone. "
                    "Remove it from the Dockerfile, or use another base image."
                ).format(volumes=", ".join(sorted(volumes))[:200])
            )

    def _describe(self, agent_id: str, commits: tuple[str, str], image: str) -> ImageVersion:
        files = self._list_files(image)
        everything = [file for file in files if file[0] != VERSION_FILE]

        def below(folder: str) -> str:
            return hash_files(
                (path.removeprefix(f"{folder}/"), runs, digest)
                for path, runs, digest in files
                if path.startswith(f"{folder}/")
            )

        # the agent itself is part of the hash: with another release it is another image
        image_hash = f"{hash_files(everything)}\n{self._agent_id()}"
        return make_version(agent_id, commits, below(TOOLS_DIR), below(SKILLS_DIR), image_hash)

    def _list_files(self, image: str) -> list[tuple[str, bool, str]]:
        """Return the files in an image's /choir, from a container that is created but never started."""
        api = self._api()
        container = api.create_container(image, command=["true"], network_disabled=True)["Id"]
        try:
            stream, _stat = api.get_archive(container, "/choir")
            content = io.BytesIO()
            for chunk in stream:
                content.write(chunk)
                if content.tell() > MAX_CONTENT_BYTES:
                    raise InvalidRequest(
                        _("/choir has more than {max_content_bytes} MiB.").format(
                            max_content_bytes=MAX_CONTENT_BYTES >> 20
                        )
                    )
        finally:
            api.remove_container(container, force=True, v=True)
        content.seek(0)
        with tarfile.open(fileobj=content) as archive:
            return [describe_member(archive, member) for member in archive if not member.isdir()]

    def _fault(self, image: Image) -> str | None:
        with _translate_errors(_("inspect the image")):
            try:
                details = self._api().inspect_image(image.place)
            except docker_errors.ImageNotFound:
                return _("the engine has no image {place} (was it removed?)").format(
                    place=image.place[:25]
                )
        labels = details["Config"]["Labels"] or {}
        if labels.get(LABEL_VERSION) != image.version.image_version:
            return _("its label has another version")
        # an image's id is the hash of its contents, so nothing else needs comparing
        return None

    def _exists(self, name: str) -> bool:
        try:
            self._api().inspect_image(name)
        except docker_errors.ImageNotFound:
            return False
        return True

    def _labels(self, recipe: BuildInput, part: str) -> dict[str, str]:
        labels = {
            LABEL_PART: part,
            LABEL_HOME: str(self._home),
            LABEL_AGENT_IMAGE: self._agent_id(),
        }
        return labels if part == "base" else {**labels, LABEL_AGENT: recipe.agent_id}

    def _run_build(
        self,
        dockerfile: str,
        files: ContextFiles,
        labels: Mapping[str, str],
        report: ProgressReporter,
        *,
        tag: str | None = None,
        arguments: Mapping[str, str] | None = None,
    ) -> str:
        """Build and return the image's id; raises InvalidRequest with the builder's error text when it
        fails."""
        image_id, deadline = "", time.monotonic() + self._limits.timeout_s
        messages = self._api().build(
            fileobj=make_build_context(dockerfile, files),
            custom_context=True,
            dockerfile=DOCKERFILE,
            tag=tag,
            labels=dict(labels),
            buildargs=dict(arguments or {}),
            container_limits={
                "memory": self._limits.memory_bytes,
                # equal to the memory limit: no swap
                "memswap": self._limits.memory_bytes,
            },
            rm=True,
            forcerm=True,
            timeout=self._limits.timeout_s,
            decode=True,
        )
        for message in _messages_until(deadline, messages):
            if "error" in message:
                raise InvalidRequest(
                    _("The image cannot be built: {error}").format(
                        error=str(message["error"]).strip()[:800]
                    )
                )
            for line in str(message.get("stream", "")).splitlines():
                if line.strip():
                    report.output(line.rstrip())
            image_id = str((message.get("aux") or {}).get("ID", image_id))
        if not image_id:
            raise Unavailable(_("The engine returned no image id. Try again."))
        return image_id


def _messages_until(deadline: float, messages: Generator[Any]) -> Iterator[Any]:
    """Yield the builder's messages; at the deadline close the connection, which ends the build."""
    while True:
        try:
            message = next(messages, None)
        except TimeoutErrorOfHttp:
            break
        if message is None:
            return
        if time.monotonic() > deadline:
            break
        yield message
    messages.close()
    raise InvalidRequest(_("The image cannot be built: timeout (CHOIR_BUILD_WITHIN_S)."))


class _ThreadSafeReporter:
    """Forwards progress from the build thread to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, report: ProgressReporter) -> None:
        self._loop = loop
        self._report = report

    def progress(self, text: str, share: float | None = None) -> None:
        self._call(self._report.progress, text, share)

    def output(self, text: str) -> None:
        self._call(self._report.output, text)

    def _call(self, function: Any, *arguments: object) -> None:
        # if the event loop was closed meanwhile, the progress is no longer needed
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


@contextlib.contextmanager
def _translate_errors(action: str) -> Iterator[None]:
    """Convert the SDK's errors to ours."""
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
    except (docker_errors.DockerException, OSError, json.JSONDecodeError) as error:
        raise Unavailable(
            _("Cannot {action}: the Docker engine does not respond ({error}).").format(
                action=action, error=error
            )
        ) from error
