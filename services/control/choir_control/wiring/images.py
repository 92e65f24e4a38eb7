"""Wiring of repositories and images, and the choice of the image builder."""

import os
from typing import assert_never

import structlog

from choir_common.errors import ChoirError
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore
from choir_control.images.build_service import ImageBuildService
from choir_control.images.builder import ImageBuilder
from choir_control.images.directory_builder import DirectoryImageBuilder
from choir_control.images.image_store import ImageStore
from choir_control.images.job.builder import JobImageBuilder
from choir_control.images.job.manifest import JobSite
from choir_control.images.repositories.credentials import GitCredentials
from choir_control.images.repositories.mirrors import Mirrors
from choir_control.images.repositories.prompt_files import MemoryPromptReader
from choir_control.images.repositories.survey import RepositorySurveyor
from choir_control.images.tool_check import ToolChecker
from choir_control.settings import ControlSettings

log = structlog.get_logger("choir.images")


class ImageServices:
    """The mirrors, the image builder and the services built on them."""

    def __init__(
        self, *, settings: ControlSettings, configuration: ConfigService, secrets: SecretStore
    ) -> None:
        self.credentials = GitCredentials(secrets, settings.known_hosts)
        # Mirrors passes only allow-listed variables to git: ssh-agent, proxy and certificates.
        self.mirrors = Mirrors(settings.home, os.environ, self.credentials)
        self.image_store = ImageStore(settings.home)
        self.builder = choose_builder(settings)
        compiles = self.builder.kind == "docker"
        self.surveyor = RepositorySurveyor(self.mirrors, settings.home / "repos", compiles=compiles)
        self.memory_prompts = MemoryPromptReader(configuration, self.mirrors, settings.home)
        self.tool_checker = ToolChecker()
        self.build_service = ImageBuildService(
            home=settings.home,
            configuration=configuration,
            mirrors=self.mirrors,
            builder=self.builder,
            image_store=self.image_store,
            tools=self.tool_checker,
        )

    async def remove_orphans(self) -> None:
        """Remove builds that an earlier control process left; if they cannot be, they end by themselves."""
        try:
            await self.builder.remove_orphans()
        except ChoirError as error:
            log.warning("orphaned builds were not removed", error=error.message)


def choose_builder(settings: ControlSettings) -> ImageBuilder:
    """Return the builder for the configured runtime."""
    match settings.runtime:
        case "kubernetes" if settings.build_repository:
            return make_job_builder(settings)
        # pods mount the image's directory from the volume of the state directory
        case "process" | "kubernetes":
            return DirectoryImageBuilder(settings.home)
        case "docker":
            # the Docker SDK costs 15 MB and 0.2 s, which the embedded stack does not need
            from choir_control.images.docker_builder import (  # noqa: PLC0415 - see above
                make_builder,
            )

            return make_builder(settings)
        case _:
            assert_never(settings.runtime)


def make_job_builder(settings: ControlSettings) -> JobImageBuilder:
    """Return a builder that has not contacted the API server yet."""
    # its client library costs 65 MB and 0.7 s
    from choir_control.agents.runtimes.kubernetes.job_api import (  # noqa: PLC0415 - see above
        BuildApi,
    )

    site = JobSite(
        claim=settings.kubernetes_claim,
        repository=settings.build_repository,
        agent_image=settings.agent_image,
        builder_image=settings.builder_image,
        secret=settings.build_secret,
        seccomp_profile=settings.build_seccomp_profile,
        memory_bytes=settings.build_memory_mb << 20,
        cpus=settings.build_cpus,
        disk_bytes=settings.build_disk_mb << 20,
        timeout_s=settings.build_within_s,
    )
    return JobImageBuilder(site, BuildApi(settings.build_namespace))
