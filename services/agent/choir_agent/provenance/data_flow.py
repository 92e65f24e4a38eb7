"""Declaration of a tool's data flow, which is part of its manifest."""

from dataclasses import dataclass
from typing import Literal

Sends = Literal["nothing", "network", "mail", "pages", "conversations"]
"""Where a call can send data. `network`: anywhere; `mail`: the addresses in its arguments; `pages`: the URL
in its arguments, or the page that is open; `conversations`: another conversation of the
agent. The owner and services that the owner configured do not count."""
Writes = Literal["nothing", "path", "files", "listed"]
"""What a call can write in the workspace: the file of its `path`, any file, or those that Choir saved and
lists in `files` of the result."""


@dataclass(frozen=True, slots=True)
class DataFlow:
    """What a tool brings into a lane, and what it can send out."""

    outside: bool = False
    """Whether it returns text that the owner and the agent did not write."""
    private: bool = False
    """Whether it returns private data, or can send some that is not among its arguments."""
    sends: Sends = "nothing"
    reads_workspace: bool = False
    """Whether it returns content of files."""
    writes: Writes = "nothing"
    can_be_offline: bool = False
    """Whether a call can run without network: argument `network`."""


INTERNAL = DataFlow()
"""Returns Choir's own text, and contacts nobody but the owner."""
