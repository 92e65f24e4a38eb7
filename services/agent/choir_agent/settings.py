"""Settings of the agent process, and the moment's settings from control; the only reader of the environment.

What an agent needs comes from control (`INIT_HELLO`); the environment says only how loudly to speak, where
temporary files go, and where spans do.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from choir_common.errors import StartupError
from choir_common.wire.config import AgentSettings

LEVELS = ("debug", "info", "warning", "error")
USUAL_TMP_DIR = "/tmp"  # noqa: S108 - where the runtime names none


@dataclass(frozen=True, slots=True)
class AgentProcessSettings:
    """What is known before control has answered."""

    log_level: str = "info"
    """debug, info, warning or error; info shows each model call, tool call and change of a lane's state."""
    otlp_endpoint: str | None = None
    """Where a collector takes spans over HTTP; none, and the SDK is not even loaded."""
    tmp_dir: str = USUAL_TMP_DIR
    """Where commands may put temporary files; in the process runtime /tmp itself is out of reach."""
    hello_patience_s: float = 60.0
    """How long to wait for control at the start; a runtime that sees us exit starts us again."""
    stop_grace_s: float = 15.0
    """How long a turn may go on after the shutdown signal; control waits twenty seconds for it."""
    hurry_grace_s: float = 1.0
    """The same after SIGTERM: the runtime kills three seconds later."""
    flush_grace_s: float = 1.5
    """How long the last events may take to become durable; what is not is a crash to mend."""

    @classmethod
    def load(cls) -> "AgentProcessSettings":
        """Read the environment.

        Raises StartupError for a log level that does not exist.
        """
        level = os.environ.get("CHOIR_LOG_LEVEL", "info").lower()
        if level not in LEVELS:
            raise StartupError(
                f"CHOIR_LOG_LEVEL is {level!r}; it takes one of {', '.join(LEVELS)}."
            )
        return cls(
            log_level=level,
            otlp_endpoint=os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"),
            tmp_dir=os.environ.get("TMPDIR", USUAL_TMP_DIR),
        )


@dataclass(frozen=True, slots=True)
class CurrentSettings:
    """What control configured, and the secrets it names, taken whole at one moment (spec 16.3)."""

    settings: AgentSettings
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def secret(self, name: str | None) -> str | None:
        """Return a secret's value, none for no name or no value."""
        return None if name is None else self.secrets.get(name)
