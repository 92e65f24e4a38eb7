"""Make the runtime that the settings name. Called by `__main__`; the only place that knows there are two."""

import importlib
import os
from typing import assert_never, cast

from choir_common.logs.pump import Clean
from choir_control.runtimes.agent_logs import AgentLogs
from choir_control.runtimes.port import AgentRuntime
from choir_control.runtimes.process.runtime import ProcessRuntime
from choir_control.settings import ControlSettings

DOCKER = "choir_control.runtimes.docker.from_settings"


def choose_runtime(settings: ControlSettings, clean: Clean) -> AgentRuntime:
    """Return the adapter; nothing has been started or asked yet. `clean` is the redactor."""
    logs = AgentLogs(settings.home, clean)
    match settings.runtime:
        case "process":
            # The whole environment, since locale and certificate variables are passed on to agents.
            return ProcessRuntime(settings.home, os.environ, logs=logs)
        case "docker":
            # Imported here alone: the SDK takes 15 MB and 0.2 s that an embedded stack does not need.
            return cast(AgentRuntime, importlib.import_module(DOCKER).make_runtime(settings, logs))
        case _:
            assert_never(settings.runtime)
