"""Fork server: a process that has the agent's modules loaded, and whose forks become agents.

Control starts it: `python -I -m choir_agent.fork_server SOCKET PARENT`. An agent that is forked starts in a
tenth of the time that a new interpreter needs for its imports, and shares the memory of the modules with the
other agents. The server knows no secrets: its environment has none, and an agent reads its boot line itself.
It runs no other thread, because a fork would not have it.
"""

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence

from choir_agent.__main__ import run
from choir_common.confinement import agent_process
from choir_common.confinement.kernel import Kernel
from choir_common.confinement.options import ConfinementOptions, parse
from choir_common.process import run_process
from choir_common.wire.agent_forks import (
    FORK_DESCRIPTORS,
    MAX_PACKET_BYTES,
    AgentForkReply,
    AgentForkRequest,
)

ADOPTED_WITHIN_S = 10.0
POLL_INTERVAL_S = 0.0005
AGENT = (sys.executable, "-I", "-m", "choir_agent")


def serve(connection: socket.socket) -> AgentForkRequest | None:
    """Fork an agent for each request until the connection ends, and return None then.

    In a fork, return the request of the agent that it shall become. The server itself reads no request: what
    it knew about one agent, all later ones would have in their memory.
    """
    gc.collect()
    # what is loaded by now is never garbage: its pages stay shared with the forks
    gc.freeze()
    while connection.recv(1, socket.MSG_PEEK):
        between = os.fork()
        if between == 0:
            return fork_agent(connection)
        _, status = os.waitpid(between, 0)
        if status != 0:
            break  # it may have left its request unread
    return None


def fork_agent(connection: socket.socket) -> AgentForkRequest:
    """Fork an agent and end; return the request in the fork.

    The end of this process makes the agent a child of the next subreaper above, which is control.
    """
    packet, descriptors, _, _ = socket.recv_fds(connection, MAX_PACKET_BYTES, FORK_DESCRIPTORS)
    request = AgentForkRequest.model_validate_json(packet)
    pid = os.fork()
    if pid != 0:
        connection.send(AgentForkReply(pid=pid).model_dump_json().encode())
        os._exit(0)
    connection.detach()  # all descriptors but the streams are closed by the confinement
    take_streams(descriptors)
    return request


def take_streams(descriptors: Sequence[int]) -> None:
    """Make these the standard streams of a new session."""
    os.setsid()
    stdin, output = descriptors
    for number, descriptor in enumerate((stdin, output, output)):
        os.dup2(descriptor, number)


def confine(request: AgentForkRequest) -> None:
    """Confine this process as `choir_common.confinement.script` does before it executes an agent."""
    os.environ.clear()
    os.environ.update(request.environment)
    options = parse([*request.confinement, "--"])
    _wait_for_adoption(options)
    agent_process.confine(options)
    os.chdir(options.chdir)
    if os.getpid() == 1:
        # Python does not know of this fork, which made a PID namespace: it is executed again
        os.execv(AGENT[0], AGENT)  # noqa: S606 no shell is meant


def _wait_for_adoption(options: ConfinementOptions) -> None:
    """Wait until the process between has ended; the confinement then checks who the parent is."""
    deadline = time.monotonic() + ADOPTED_WITHIN_S
    while os.getppid() != options.parent and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)


def main(arguments: Sequence[str]) -> int:
    """Serve the connection that the arguments name; return the exit code, of a fork that of its agent."""
    descriptor, parent = map(int, arguments)
    agent_process.die_with_parent(Kernel(), parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=descriptor)
    request = serve(connection)
    if request is None:
        return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        confine(request)
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"cannot confine the program: {error}\n")
        return 1
    return run_process(run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
