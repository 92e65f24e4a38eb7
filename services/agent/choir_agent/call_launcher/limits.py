"""Limits on all processes of a call together; the kernel's own limits are per process or per user."""

import os

CHECK_INTERVAL_S = 0.25
SUPERVISOR = "1"
"""Its process id in the call's PID namespace."""


class CallLimits:
    """Limits on a call, enforced by its supervisor."""

    def __init__(self, *, memory: int, processes: int) -> None:
        """Set the bytes of private memory and the number of processes; 0 means no limit."""
        self.memory = memory
        self.processes = processes

    def find_excess(self) -> str:
        """Return which limit the processes in this PID namespace exceed, or an empty string."""
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib is slow to import
        pids = [name for name in names if name.isdigit() and name != SUPERVISOR]
        if self.processes and len(pids) > self.processes:
            return f"it had {len(pids)} processes; the limit is {self.processes}"
        used = sum(map(_private_memory, pids))
        if self.memory and used > self.memory:
            return f"it used {used >> 20} MiB of memory; the limit is {self.memory >> 20} MiB"
        return ""


def _private_memory(pid: str) -> int:
    """Return the bytes of memory that a process does not share; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123 - pathlib is slow to import
            _, resident, shared, *_ = map(int, file.read().split())
    except OSError:
        return 0
    return (resident - shared) * os.sysconf("SC_PAGESIZE")
