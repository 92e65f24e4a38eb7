"""The configuration that choird starts with: config.json, or the last valid one.

An invalid file must not prevent a restart after a crash, for example while somebody edits it. The
log and `config show` report the fallback. A missing file is an error: the state directory may be
wrong.
"""

from dataclasses import dataclass

import structlog

from choir_common.errors import InvalidRequest, StartupError
from choir_control.configuration.current import ConfigCandidate, ConfigService
from choir_control.configuration.parsing import ConfigFileMissing

log = structlog.get_logger("choir.configuration")


@dataclass(frozen=True, slots=True)
class StartupConfig:
    """The result of reading config.json at startup."""

    candidate: ConfigCandidate | None
    why_not: str

    @property
    def agents(self) -> list[str]:
        """Return the names of the agents in the file; empty if the file is not valid."""
        return sorted(self.candidate.config.agents) if self.candidate else []

    async def or_last_valid(self, configuration: ConfigService) -> ConfigCandidate:
        """Return the configuration of the file, or the last valid one.

        Raises StartupError with the fault of the file if there is neither.
        """
        if self.candidate is not None:
            return self.candidate
        last = await configuration.load_last_valid(self.why_not)
        if last is None:
            raise StartupError(self.why_not)
        log.error("started with the last valid configuration", reason=self.why_not)
        return last


def read_startup_config(configuration: ConfigService) -> StartupConfig:
    """Read config.json; raises StartupError if it does not exist."""
    try:
        candidate = configuration.read()
    except ConfigFileMissing as error:
        raise StartupError(error.message) from None
    except InvalidRequest as error:
        log.error("configuration is not valid", error=error.message)
        return StartupConfig(None, error.message)
    log.info("configuration read", file=str(configuration.path))
    return StartupConfig(candidate, "")
