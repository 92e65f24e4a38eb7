"""Fork server of services: `python -P -m choir_local.service_fork_server SOCKET PARENT`.

It has the modules of services loaded, and its forks become services, which start without importing them and
share their memory. The server knows no secrets: a service reads its own from standard input. It runs no other
thread, because a fork would not have it.
"""

import fcntl
import importlib
import os
import runpy
import signal
import socket
import sys
import time
from collections.abc import Sequence

from choir_common.confinement import agent_process
from choir_common.confinement.kernel import Kernel
from choir_common.forks.server import close_others, serve_forks, take_streams, wait_for_parent
from choir_common.wire.forks import ServiceForkRequest
from choir_local import child_start
from choir_local.launch import FORKED_MODULES
from choir_local.process_user import SAME_USER

LATE_IMPORTS = ("anyio._backends._asyncio", "httpcore2", "truststore", "uvicorn.lifespan.off")
"""What services import only when they start."""
MOVED_ABOVE = 100
"""Descriptors are moved above this number before they get those that the arguments name."""


def load_modules() -> None:
    """Import what services import."""
    for module in (*(f"{module}.__main__" for module in FORKED_MODULES), *LATE_IMPORTS):
        importlib.import_module(module)
    for module in [name for name, loaded in sys.modules.items() if loaded is None]:
        del sys.modules[module]  # what a service forbids itself to import, others may


def become_service(request: ServiceForkRequest, descriptors: Sequence[int]) -> None:
    """Run a service as a new interpreter would; raises SystemExit with its exit code."""
    stdin, output, *others = descriptors
    take_streams(stdin, output)
    _take_descriptors(others, request.numbers)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    os.chdir(request.directory)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wait_for_parent(request.parent)
    child_start.start(request.parent, request.death_signal, SAME_USER.text, [])
    sys.argv = [request.module, *request.arguments]
    del sys.modules[f"{request.module}.__main__"]
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)


def _take_descriptors(received: Sequence[int], numbers: Sequence[int]) -> None:
    """Give the received descriptors these numbers; close all others but the standard streams."""
    copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, MOVED_ABOVE) for descriptor in received]
    for descriptor, number in zip(copies, numbers, strict=True):
        os.dup2(descriptor, number)
    close_others(numbers)


def main(arguments: Sequence[str]) -> None:
    """Serve the connection that the arguments name; in a fork, run its service."""
    descriptor, parent = map(int, arguments)
    agent_process.die_with_parent(Kernel(), parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_modules()
    fork = serve_forks(socket.socket(fileno=descriptor))
    if fork is not None:
        become_service(ServiceForkRequest.model_validate_json(fork.packet), fork.descriptors)


if __name__ == "__main__":
    main(sys.argv[1:])
