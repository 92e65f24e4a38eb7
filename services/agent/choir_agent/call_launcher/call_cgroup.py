"""Cgroups of tool calls, below the one of their agent, which control has made.

The kernel then limits all processes of a call together and kills them at once. The program is started inside
its cgroup: to move a process later costs more, and what it forked before would stay outside.
"""

import contextlib
import os
import time

from choir_agent.call_launcher.limits import CallLimits

CPU_WEIGHT = 50
"""The usual weight, which the agent's process has, is 100."""
EMPTY_WITHIN_S = 2.0
POLL_INTERVAL_S = 0.002


def create_call_cgroup(agent: int, name: str, limits: CallLimits) -> "CallCgroup":
    """Create the cgroup of a call in the open directory `agent` of the agent's; raises OSError."""
    os.mkdir(name, dir_fd=agent)
    return CallCgroup(agent, name, limits)


class CallCgroup:
    """The cgroup of one call, as an open directory."""

    def __init__(self, agent: int, name: str, limits: CallLimits) -> None:
        """Set the limits of the cgroup `name` in the open directory `agent`; raises OSError."""
        self._agent = agent
        self._name = name
        self._limits = limits
        self.directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=agent)
        if limits.memory:
            self._write("memory.max", str(limits.memory))
            # Without it a call could use the swap space of the host in addition.
            self._write_optional("memory.swap.max", "0")
            # At the limit the kernel kills the whole call, not one process in its middle.
            self._write("memory.oom.group", "1")
        if limits.processes:
            self._write("pids.max", str(limits.processes))
        self._write_optional("cpu.weight", str(CPU_WEIGHT))

    def find_excess(self) -> str:
        """Return which limit the call has reached, or an empty string."""
        if self._limits.processes and self._count_events("pids.events", "max"):
            return f"it had more than {self._limits.processes} processes"
        if self._limits.memory and self._count_events("memory.events", "oom_kill"):
            return f"it used more than {self._limits.memory >> 20} MiB of memory"
        return ""

    def kill(self) -> None:
        """Kill all processes of the call at once; raises OSError."""
        self._write("cgroup.kill", "1")

    def remove(self) -> None:
        """Remove the cgroup, whose processes were killed; one that stays is removed with its agent."""
        os.close(self.directory)
        deadline = time.monotonic() + EMPTY_WITHIN_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                os.rmdir(self._name, dir_fd=self._agent)
                return
            time.sleep(POLL_INTERVAL_S)

    def _count_events(self, file: str, event: str) -> int:
        """Return how often an event has happened, from a file of lines `event count`."""
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.directory)
        try:
            lines = os.read(descriptor, 4096).decode().splitlines()
        finally:
            os.close(descriptor)
        counts = dict(line.split() for line in lines)
        return int(counts.get(event, 0))

    def _write(self, file: str, text: str) -> None:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC, dir_fd=self.directory)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def _write_optional(self, file: str, text: str) -> None:
        """Write a file of a controller that may be missing."""
        with contextlib.suppress(FileNotFoundError):
            self._write(file, text)
