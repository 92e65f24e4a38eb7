"""Process settings from the environment, and the agent's current settings from control.

The only module that reads the environment. Everything else an agent needs comes from control
(`INIT_HELLO`).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.wire.config import AgentSettings

LOG_LEVELS = ("debug", "info", "warning", "error")
DEFAULT_TMP_DIR = "/tmp"  # noqa: S108 - where the runtime names none


@dataclass(frozen=True, slots=True)
class AgentProcessSettings:
    """Settings that are needed before control has replied."""

    log_level: str = "info"
    """debug, info, warning or error. `info` logs each model call, tool call and change of a lane's
    state."""
    otlp_endpoint: str | None = None
    """OTLP/HTTP endpoint for spans. If None, the OpenTelemetry SDK is not loaded."""
    tmp_dir: str = DEFAULT_TMP_DIR
    """Directory for temporary files of commands; in the process runtime /tmp itself is not accessible."""
    call_launcher: int | None = None
    """Descriptor of the connection to the launcher of tool calls. Without one the agent starts it."""
    hello_timeout_s: float = 60.0
    """Seconds to wait for control at startup. If we exit, the runtime starts us again."""
    stop_grace_s: float = 15.0
    """Seconds that a turn may continue after the shutdown signal; control waits 20 s."""
    sigterm_grace_s: float = 1.0
    """Seconds that a turn may continue after SIGTERM; the runtime kills the process after 3 s."""
    flush_grace_s: float = 1.5
    """Seconds for the last events to become durable at shutdown; events that miss it are handled as
    after a crash."""

    @classmethod
    def load(cls) -> "AgentProcessSettings":
        """Load the settings from the environment.

        Raises StartupError for an unknown log level.
        """
        level = os.environ.get("CHOIR_LOG_LEVEL", "info").lower()
        if level not in LOG_LEVELS:
            raise StartupError(
                _("CHOIR_LOG_LEVEL is {level!r}; it takes one of {log_levels}.").format(
                    level=level, log_levels=", ".join(LOG_LEVELS)
                )
            )
        launcher = os.environ.get("CHOIR_CALL_LAUNCHER")
        return cls(
            log_level=level,
            otlp_endpoint=os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"),
            tmp_dir=os.environ.get("TMPDIR", DEFAULT_TMP_DIR),
            call_launcher=int(launcher) if launcher else None,
        )


@dataclass(frozen=True, slots=True)
class CurrentSettings:
    """A consistent copy of the agent's settings and the secrets they name, as last loaded from control."""

    settings: AgentSettings
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def secret(self, name: str | None) -> str | None:
        """Return a secret's value, or None if `name` is None or the value is unknown."""
        return None if name is None else self.secrets.get(name)


class SettingsSource(Protocol):
    """Access to the newest settings; they may change between two calls of `current`."""

    def current(self) -> CurrentSettings: ...
