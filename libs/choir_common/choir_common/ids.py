"""Identifier types that cross process boundaries, and how they are generated.

An id is an opaque string; its prefix shows the reader which kind of object it identifies.
"""

import os
import re
import time
from typing import Literal, NewType, get_args

AgentId = NewType("AgentId", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
CallId = NewType("CallId", str)
InboxId = NewType("InboxId", str)
DmName = NewType("DmName", str)
GatewayName = NewType("GatewayName", str)
RequestId = NewType("RequestId", str)
ApprovalId = NewType("ApprovalId", str)

ServiceName = Literal["control", "memory", "gateway", "browser"]
SERVICE_NAMES: tuple[ServiceName, ...] = get_args(ServiceName)

# An agent id is used unchanged in the names of a Postgres schema and role (quoted), of directories,
# sockets, logs and containers, so two agents never share one. Dots and capitals are not allowed: names that
# must not collide with an agent id contain a dot.
NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,40}$"
AGENT_ID_RULE = (
    "an agent id starts with a lower-case letter and contains only lower-case letters, digits, `_` "
    "and `-`, at most 41 characters"
)
_NAME = re.compile(NAME_PATTERN)

# Each agent has its own database schema (choir_<agent>), log file (<agent>.log) and repository next to the
# global one. These names are used by Choir itself.
RESERVED_AGENT_IDS = (
    *("choir", "control", "memory", "choird", "gateway", "browser", "egress"),
    *("global", "postgres", "nats", "rehearsal", "stack"),
)


def is_agent_id(text: str) -> bool:
    """Return whether `text` is a valid agent id."""
    return _NAME.fullmatch(text) is not None


def new_id(prefix: str) -> str:
    """Return a new id `<prefix>_<23 hex digits>` that sorts by its creation time in milliseconds."""
    return f"{prefix}_{time.time_ns() // 1_000_000:011x}{os.urandom(6).hex()}"
