"""Resident memory of each process of a running stack, in MB.

Postgres and the browser service have several processes, which share memory, so they are counted by
proportional share (PSS); the others by RSS, as `ps` shows it.
"""

import psutil

from tests.support.stack import EmbeddedStack

MB = 1024 * 1024


async def measure_memory(stack: EmbeddedStack) -> dict[str, float]:
    """Return MB by process name, for the agent, and as `all_services` their sum without the agent.

    The sum also excludes the rehearsal model: it replaces a provider, which is not part of Choir.
    """
    weights: dict[str, float] = {}
    record = stack.children()
    weights["supervisor"] = _rss(record["supervisor_pid"])
    for name in record["children"]:
        pid = stack.pid(name)
        weights[name] = _tree_pss(pid) if name in ("postgres", "browser") else _rss(pid)
    # before the agent is added
    services = sum(weight for name, weight in weights.items() if name != "rehearsal")
    agent = await stack.agent_pid()
    if agent is not None:
        weights["agent"] = _rss(agent)
    weights["all_services"] = services
    return {name: round(weight, 1) for name, weight in weights.items()}


def _rss(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / MB


def _tree_pss(pid: int) -> float:
    root = psutil.Process(pid)
    family = [root, *root.children(recursive=True)]
    return sum(float(process.memory_full_info().pss) for process in family) / MB
