"""Confinement of processes by the kernel: views, Landlock, seccomp, user ids.

Used by control for agents, by the agent for tool calls, and by the embedded stack for services. `script.py`
runs between fork and exec; what it imports from here may import the standard library only.
"""

from pathlib import Path

MISSING_VARIABLE = "CHOIR_MISSING_WALLS"
"""Environment variable of a service with a JSON list: what this host does not support."""


def script_path() -> str:
    """Return the path of the script that confines its process and then executes a program."""
    return str(Path(__file__).with_name("script.py"))
