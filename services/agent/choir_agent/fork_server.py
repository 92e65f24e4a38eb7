"""Fork server: a process that has the agent's modules loaded, and whose forks become agents.

Control starts it: `python -I -m choir_agent.fork_server SOCKET PARENT`. An agent that is forked starts in a
tenth of the time that a new interpreter needs for its imports, and shares the memory of the modules with the
other agents. The server knows no secrets: its environment has none, and an agent reads its boot line itself.
It runs no other thread, because a fork would not have it.
"""

import os
import signal
import socket
import sys
from collections.abc import Sequence

from choir_agent.__main__ import run
from choir_common.confinement import agent_process
from choir_common.confinement.kernel import Kernel
from choir_common.confinement.options import parse
from choir_common.forks.server import serve_forks, take_streams, wait_for_parent
from choir_common.process import run_process
from choir_common.wire.forks import AgentForkRequest

AGENT = (sys.executable, "-I", "-m", "choir_agent")


def confine(request: AgentForkRequest) -> None:
    """Confine this process as `choir_common.confinement.script` does before it executes an agent."""
    os.environ.clear()
    os.environ.update(request.environment)
    options = parse([*request.confinement, "--"])
    wait_for_parent(options.parent)
    agent_process.confine(options)
    os.chdir(options.chdir)
    if os.getpid() == 1:
        # Python does not know of this fork, which made a PID namespace: it is executed again
        os.execv(AGENT[0], AGENT)  # noqa: S606 no shell is meant


def main(arguments: Sequence[str]) -> int:
    """Serve the connection that the arguments name; return the exit code, of a fork that of its agent."""
    descriptor, parent = map(int, arguments)
    agent_process.die_with_parent(Kernel(), parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    fork = serve_forks(socket.socket(fileno=descriptor))
    if fork is None:
        return 0
    take_streams(*fork.descriptors)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        confine(AgentForkRequest.model_validate_json(fork.packet))
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"cannot confine the program: {error}\n")
        return 1
    return run_process(run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
