"""What the walls around a call refused, as far as it can be seen from outside. Pure.

The kernel does not report what it refuses to a program, so error texts of the program are hints.
"""

import re
from collections.abc import Iterator, Sequence

from choir_agent.tools.manifest import RuntimeView
from choir_common.wire.connections import HostConnections
from choir_common.wire.local_tools import ToolTrial

MAX_HINTS = 5
MAX_LINE_CHARS = 200
_DENIED = re.compile(r"permission denied|operation not permitted|read-only file system", re.I)
_NO_NETWORK = re.compile(r"resolution|resolve|network is unreachable|connection refused", re.I)
_REASONS = {
    "new_host": (
        "is new to this agent: a call of the agent would ask a person first. Name it in `hosts` of the "
        "manifest"
    ),
    "refused": "is not among the hosts that this tool may reach (`hosts`, policy, private addresses)",
    "failed": "is permitted, but did not answer",
}


def list_refusals(
    runtime: RuntimeView, trial: ToolTrial, connections: Sequence[HostConnections]
) -> tuple[str, ...]:
    """Return one sentence for each thing that was refused or limited."""
    return (*_connections(connections), *_limits(trial), *_hints(runtime, trial))


def _connections(connections: Sequence[HostConnections]) -> Iterator[str]:
    for contact in connections:
        if reason := _REASONS.get(contact.decision):
            yield f"{contact.host}:{contact.port} {reason}."


def _limits(trial: ToolTrial) -> Iterator[str]:
    code = trial.output.get("code")
    if code == "over_limit":
        yield str(trial.output.get("message"))
    if code == "timeout":
        yield "The program ran longer than `timeout_ms` of the manifest, and was killed."


def _hints(runtime: RuntimeView, trial: ToolTrial) -> Iterator[str]:
    texts = [*trial.stderr.splitlines(), str(trial.output.get("message", ""))]
    lines = dict.fromkeys(text.strip()[:MAX_LINE_CHARS] for text in texts)
    hints = [(line, hint) for line in lines if (hint := _hint(runtime, line))]
    yield from (f"{line!r}: {hint}" for line, hint in hints[:MAX_HINTS])


def _hint(runtime: RuntimeView, line: str) -> str:
    if not runtime.network and (_DENIED.search(line) or _NO_NETWORK.search(line)):
        return (
            "without `network: true` the kernel denies all sockets; files outside the workspace and the "
            "temporary directory cannot be written, and most cannot be read."
        )
    if _DENIED.search(line):
        return (
            "files outside the workspace and the temporary directory cannot be written, and most cannot "
            "be read."
        )
    return ""
