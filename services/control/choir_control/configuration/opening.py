"""The configuration that choird starts with: config.json, or the last valid one.

Called by `app`. An invalid file must not prevent a restart after a crash, for example while
somebody edits it. The log and `config show` report the fallback. A missing file is an error: the
state directory may be wrong.
"""

from dataclasses import dataclass

import structlog

from choir_common.errors import BadInput, StartupError
from choir_control.configuration.current import Candidate, Configuration
from choir_control.configuration.read import Missing

log = structlog.get_logger("choir.configuration")


@dataclass(frozen=True, slots=True)
class Opening:
    """The result of reading config.json at startup."""

    candidate: Candidate | None
    why_not: str

    @property
    def agents(self) -> list[str]:
        """Return the names of the agents in the file; empty if the file is not valid."""
        return sorted(self.candidate.config.agents) if self.candidate else []

    async def or_last_good(self, configuration: Configuration) -> Candidate:
        """Return the configuration of the file, or the last valid one.

        Raises StartupError with the fault of the file if there is neither.
        """
        if self.candidate is not None:
            return self.candidate
        last = await configuration.last_good(self.why_not)
        if last is None:
            raise StartupError(self.why_not)
        log.error("started with the last good configuration", why=self.why_not)
        return last


def read_at_start(configuration: Configuration) -> Opening:
    """Read config.json; raises StartupError if it does not exist."""
    try:
        found = configuration.read()
    except Missing as error:
        raise StartupError(error.message) from None
    except BadInput as error:
        log.error("configuration does not fit", why=error.message)
        return Opening(None, error.message)
    log.info("configuration read", file=str(configuration.path))
    return Opening(found, "")
