"""A configuration service whose configuration never changes."""

from dataclasses import dataclass

from choir_common.wire.config import Config


@dataclass(frozen=True)
class FixedSnapshot:
    """The part of a snapshot that most readers use."""

    config: Config


class FixedConfiguration:
    """Stands in for `ConfigService`."""

    def __init__(self, config: Config) -> None:
        self.current = FixedSnapshot(config)
