"""Scopes of a person's yes to a tool call, and the grants that result. See docs/design/policy.md."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from choir_common.hosts import HOST_PATTERN
from choir_common.wire.model import AwareTime, WireModel

GrantScope = Literal["once", "job", "session", "always"]
"""How long a yes holds: for one call, until the core job or session ends, or until its expiry."""
GrantUse = Literal["any", "named", "hosts"]
"""Which earlier yes may answer a question; `named`: only one that is bound to named destinations; `hosts`:
any that covers the new hosts of the call."""
Host = Annotated[str, StringConstraints(pattern=HOST_PATTERN)]
MAX_NEW_HOSTS = 20
"""Hosts that one question names."""
EVERY_SCOPE: tuple[GrantScope, ...] = ("once", "job", "session", "always")
DEFAULT_GRANT_DAYS = 30
"""Expiry of a yes with scope `always` for which the person names no other."""
MAX_GRANT_DAYS = 3650


class GrantView(WireModel):
    """A yes that covers later calls."""

    grant_id: str
    agent_id: str
    tool: str
    destinations: tuple[str, ...]
    """Hosts, mail addresses or conversations to which such a call may send; empty: only equal arguments are
    covered."""
    digest: str
    """SHA-256 of the approved tool and arguments."""
    scope: GrantScope
    session_id: str
    """The session whose call was approved."""
    job_id: str | None = None
    """The core job whose call was approved."""
    hosts: tuple[str, ...] = ()
    """Hosts that were new to the agent: every tool may reach them."""
    approval_id: str
    granted_by: str
    granted_at: AwareTime
    expires_at: AwareTime | None = None
