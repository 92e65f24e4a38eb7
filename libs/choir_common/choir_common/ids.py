"""Make and name the identifiers that cross process boundaries.

Called by every service; an id is an opaque string whose prefix tells a reader what it names.
"""

import os
import re
import time
from typing import NewType

AgentId = NewType("AgentId", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
CallId = NewType("CallId", str)
InboxId = NewType("InboxId", str)
DmName = NewType("DmName", str)
GatewayName = NewType("GatewayName", str)
RequestId = NewType("RequestId", str)
ApprovalId = NewType("ApprovalId", str)

# An agent id stands as it is in the names of a Postgres schema and role (quoted), of directories, sockets,
# logs and containers, so two agents never share one. No dot and no capital: what has to set something
# apart from an agent id uses a dot.
NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,40}$"
AGENT_ID_RULE = (
    "an agent id begins with a lower-case letter and holds lower-case letters, digits, `_` and `-`, 41 "
    "characters at most"
)
_NAME = re.compile(NAME_PATTERN)

# each agent has a database schema of its own, choir_<agent>, a log, <agent>.log, and a repository beside the
# global one; these are Choir's
RESERVED_AGENTS = (
    *("control", "memory", "choird", "gateway", "browser", "global"),
    *("postgres", "nats", "rehearsal", "stack"),
)


def is_agent_id(text: str) -> bool:
    """Tell whether `text` may name an agent: it becomes a Postgres schema and role."""
    return _NAME.fullmatch(text) is not None


def new_id(prefix: str) -> str:
    """Return a fresh id `<prefix>_<23 hex digits>`: it sorts by the millisecond it was made."""
    return f"{prefix}_{time.time_ns() // 1_000_000:011x}{os.urandom(6).hex()}"
