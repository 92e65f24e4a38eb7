"""Decide what choird starts with: what config.json says, or what was last in force if that does not fit.

Called by `app`. A file that is being edited must not keep a system down that has just crashed; but it is
said, in the log and in `config show`, and a file that is not there at all is a mistake about the place.
"""

from dataclasses import dataclass

import structlog

from choir_common.errors import BadInput, StartupError
from choir_control.configuration.current import Candidate, Configuration
from choir_control.configuration.read import Missing

log = structlog.get_logger("choir.configuration")


@dataclass(frozen=True, slots=True)
class Opening:
    """What the file said at the start."""

    candidate: Candidate | None
    why_not: str

    @property
    def agents(self) -> list[str]:
        """Return the agents it names, none if it does not fit."""
        return sorted(self.candidate.config.agents) if self.candidate else []

    async def or_last_good(self, configuration: Configuration) -> Candidate:
        """Return the file's configuration, or the last good one.

        Raises StartupError with what is wrong with the file if there is neither.
        """
        if self.candidate is not None:
            return self.candidate
        last = await configuration.last_good(self.why_not)
        if last is None:
            raise StartupError(self.why_not)
        log.error("started with the last good configuration", why=self.why_not)
        return last


def read_at_start(configuration: Configuration) -> Opening:
    """Read config.json; raises StartupError when there is none."""
    try:
        found = configuration.read()
    except Missing as error:
        raise StartupError(error.message) from None
    except BadInput as error:
        log.error("configuration does not fit", why=error.message)
        return Opening(None, error.message)
    log.info("configuration read", file=str(configuration.path))
    return Opening(found, "")
