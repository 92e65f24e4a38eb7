"""Wiring of repositories and images, and the choice of the builder. Called by `app`."""

import importlib
import os
from typing import assert_never, cast

from choir_control.configuration.current import Configuration
from choir_control.images.build import Images
from choir_control.images.port import ImageBuilder
from choir_control.images.process import ProcessImages
from choir_control.images.shelf import Shelf
from choir_control.repos.keys import Keys
from choir_control.repos.mirrors import Mirrors
from choir_control.repos.survey import Surveyor
from choir_control.settings import ControlSettings

DOCKER = "choir_control.images.docker"


class Foundry:
    """The mirrors, the image builder and the services built on them."""

    def __init__(self, settings: ControlSettings, configuration: Configuration, keys: Keys) -> None:
        # Mirrors passes only allow-listed variables to git: ssh-agent, proxy and certificates.
        self.mirrors = Mirrors(settings.home, os.environ, keys)
        self.shelf = Shelf(settings.home)
        self.builder = choose_builder(settings)
        compiles = self.builder.kind == "docker"
        self.surveyor = Surveyor(self.mirrors, settings.home / "repos", compiles=compiles)
        self.images = Images(settings.home, configuration, self.mirrors, self.builder, self.shelf)


def choose_builder(settings: ControlSettings) -> ImageBuilder:
    """Return the builder for the configured runtime."""
    match settings.runtime:
        case "process":
            return ProcessImages(settings.home)
        case "docker":
            # imported here, like the runtime, so that an embedded stack does not need the SDK
            return cast(ImageBuilder, importlib.import_module(DOCKER).make_builder(settings))
        case _:
            assert_never(settings.runtime)
