"""Wiring of repositories and images, and the choice of the builder. Called by `app`."""

import importlib
import os
from typing import assert_never, cast

from choir_control.configuration.current import ConfigService
from choir_control.images.build_service import ImageBuildService
from choir_control.images.builder import ImageBuilder
from choir_control.images.directory_builder import DirectoryImageBuilder
from choir_control.images.image_store import ImageStore
from choir_control.images.repositories.credentials import GitCredentials
from choir_control.images.repositories.mirrors import Mirrors
from choir_control.images.repositories.survey import RepositorySurveyor
from choir_control.settings import ControlSettings

DOCKER_MODULE = "choir_control.images.docker_builder"


class ImageServices:
    """The mirrors, the image builder and the services built on them."""

    def __init__(
        self, settings: ControlSettings, configuration: ConfigService, keys: GitCredentials
    ) -> None:
        # Mirrors passes only allow-listed variables to git: ssh-agent, proxy and certificates.
        self.mirrors = Mirrors(settings.home, os.environ, keys)
        self.image_store = ImageStore(settings.home)
        self.builder = choose_builder(settings)
        compiles = self.builder.kind == "docker"
        self.surveyor = RepositorySurveyor(self.mirrors, settings.home / "repos", compiles=compiles)
        self.build_service = ImageBuildService(
            settings.home, configuration, self.mirrors, self.builder, self.image_store
        )


def choose_builder(settings: ControlSettings) -> ImageBuilder:
    """Return the builder for the configured runtime."""
    match settings.runtime:
        case "process":
            return DirectoryImageBuilder(settings.home)
        case "docker":
            # imported here, like the runtime, so that an embedded stack does not need the SDK
            return cast(ImageBuilder, importlib.import_module(DOCKER_MODULE).make_builder(settings))
        case _:
            assert_never(settings.runtime)
