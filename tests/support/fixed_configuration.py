"""A configuration service whose configuration never changes."""

from dataclasses import dataclass

from choir_common.wire.config import Config
from choir_control.configuration.people import PersonRegistry


@dataclass(frozen=True)
class FixedSnapshot:
    """The part of a snapshot that most readers use."""

    config: Config

    @property
    def people(self) -> PersonRegistry:
        """Return who the users of conversations are; nobody is linked."""
        return PersonRegistry(self.config, {})


class FixedConfiguration:
    """Stands in for `ConfigService`."""

    def __init__(self, config: Config) -> None:
        self.current = FixedSnapshot(config)
