"""Check of this host: confine this process as an agent, and print what is not supported (a JSON list)."""

import json
import os
import socket
import sys

from choir_common.confinement.agent_process import LAUNCHER_VARIABLE, confine
from choir_common.confinement.options import ConfinementOptions


def run(options: ConfinementOptions) -> None:
    """Confine this process, and print what this host or the launcher of tool calls does not support."""
    missing = confine(options)
    if LAUNCHER_VARIABLE in os.environ:
        with socket.socket(fileno=int(os.environ[LAUNCHER_VARIABLE])) as launcher:
            missing += json.loads(launcher.makefile().readline())
    sys.stdout.write(json.dumps(missing))
