"""Selection of the agent runtime from the settings. Called by `__main__`."""

import importlib
import os
from typing import assert_never, cast

from choir_common.logs.pump import RedactFunction
from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_control.settings import ControlSettings

DOCKER = "choir_control.agents.runtimes.docker.from_settings"


def make_runtime(settings: ControlSettings, clean: RedactFunction) -> AgentRuntime:
    """Return the adapter without starting or contacting anything. `clean` is the redactor."""
    logs = AgentLogs(settings.home, clean)
    match settings.runtime:
        case "process":
            # The whole environment, because locale and certificate variables are passed on to agents.
            return ProcessRuntime(settings.home, os.environ, logs=logs)
        case "docker":
            # Imported late: the Docker SDK costs 15 MB and 0.2 s, which the embedded stack does not need.
            return cast(
                AgentRuntime, importlib.import_module(DOCKER).make_docker_runtime(settings, logs)
            )
        case _:
            assert_never(settings.runtime)
