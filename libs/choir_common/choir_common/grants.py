"""Grants: which later calls a person's yes covers. Pure.

A grant is bound to the agent, the tool and the destinations that the approved call names. A call without
named destinations, or with others besides, is covered only if its arguments are equal.
See docs/design/policy.md.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from choir_common.approvals import escape_line, request_digest
from choir_common.errors import InvalidRequest
from choir_common.hosts import is_known_host
from choir_common.i18n import _
from choir_common.policy import BUILT_IN, find_destinations
from choir_common.wire.grants import (
    EVERY_SCOPE,
    MAX_GRANT_DAYS,
    GrantScope,
    GrantUse,
    GrantView,
)
from choir_common.wire.model import JsonObject

_DAYS = re.compile(r"([0-9]{1,4})d")


@dataclass(frozen=True, slots=True)
class GrantSubject:
    """What a yes to a call is bound to."""

    agent_id: str
    tool: str
    destinations: tuple[str, ...]
    """All destinations of the call, sorted; empty if its arguments do not name every one."""
    digest: str


@dataclass(frozen=True, slots=True)
class CallScope:
    """Where a call is made."""

    session_id: str
    job_id: str | None = None


def call_subject(agent_id: str, payload: JsonObject) -> GrantSubject:
    """Return what a yes is bound to; `payload` is that of an approval request of type `call`."""
    tool, arguments = str(payload.get("tool")), payload.get("input")
    contacts = find_destinations(
        tool, arguments if isinstance(arguments, dict) else {}, has_network=tool not in BUILT_IN
    )
    is_open = contacts.is_open or contacts.is_unclear
    return GrantSubject(
        agent_id=agent_id,
        tool=tool,
        destinations=() if is_open else tuple(sorted({*contacts.hosts, *contacts.recipients})),
        digest=request_digest("call", payload),
    )


def covers(
    grant: GrantView,
    subject: GrantSubject,
    *,
    place: CallScope | None,
    now: datetime,
    use: GrantUse = "any",
) -> bool:
    """Return whether a grant that nobody has revoked covers a call.

    Without a `place`, the job and the session are not compared.
    """
    if (grant.agent_id, grant.tool) != (subject.agent_id, subject.tool):
        return False
    if grant.expires_at is not None and grant.expires_at <= now:
        return False
    if place is not None and not _is_in_scope(grant, place):
        return False
    if grant.destinations:
        return bool(subject.destinations) and set(subject.destinations) <= {*grant.destinations}
    return use == "any" and grant.digest == subject.digest


def covers_hosts(
    grant: GrantView, agent_id: str, hosts: Iterable[str], *, place: CallScope | None, now: datetime
) -> set[str]:
    """Return which of the hosts a grant that nobody has revoked lets an agent reach, with every tool.

    Without a `place`, the job and the session are not compared.
    """
    is_over = grant.expires_at is not None and grant.expires_at <= now
    if grant.agent_id != agent_id or is_over:
        return set()
    if place is not None and not _is_in_scope(grant, place):
        return set()
    return {host for host in hosts if is_known_host(host, grant.hosts)}


def _is_in_scope(grant: GrantView, place: CallScope) -> bool:
    match grant.scope:
        case "once":
            return False
        case "job":
            job = (grant.session_id, grant.job_id)
            return grant.job_id is not None and job == (place.session_id, place.job_id)
        case "session":
            return grant.session_id == place.session_id
        case "always":
            return True


def offered_scopes(
    request_type: str, scopes: Iterable[GrantScope], job_id: str | None
) -> tuple[GrantScope, ...]:
    """Return the scopes that a yes to a request may have, shortest first; `once` always is one."""
    choices = {*scopes} if request_type == "call" else set()
    longer: tuple[GrantScope, ...] = ("job", "session", "always")
    return ("once", *(s for s in longer if s in choices and (s != "job" or job_id is not None)))


def check_scope(scope: GrantScope, offered: Iterable[GrantScope], days: int | None) -> None:
    """Raise InvalidRequest if a request cannot be approved with a scope, or for a number of days."""
    offered = tuple(offered)
    if scope not in offered:
        raise InvalidRequest(
            _("This request cannot be approved with scope {scope}; it takes {offered}.").format(
                scope=scope, offered=", ".join(offered)
            )
        )
    if days is not None and scope != "always":
        raise InvalidRequest(_("A number of days is only for the scope always."))


def parse_days(text: str) -> int:
    """Return a lifetime such as `30d` in days; raises InvalidRequest."""
    match = _DAYS.fullmatch(text)
    days = int(match[1]) if match is not None else 0
    if not 1 <= days <= MAX_GRANT_DAYS:
        raise InvalidRequest(
            _("{text!r} is not a lifetime from 1d to {max_grant_days}d.").format(
                text=text[:20], max_grant_days=MAX_GRANT_DAYS
            )
        )
    return days


def parse_scope(text: str) -> GrantScope:
    """Return the scope of a name; raises InvalidRequest."""
    for scope in EVERY_SCOPE:
        if text == scope:
            return scope
    raise InvalidRequest(
        _("{text!r} is not a scope; there are {every_scope}.").format(
            text=text[:20], every_scope=", ".join(EVERY_SCOPE)
        )
    )


def describe_grant(grant: GrantView) -> str:
    """Return on one line what a grant covers, and until when."""
    what = f"calls to {', '.join(grant.destinations)}" if grant.destinations else "equal calls"
    if grant.hosts:
        what = f"{what}, and any tool to {', '.join(grant.hosts)}"
    match grant.scope:
        case "always":
            end = f"until {grant.expires_at:%Y-%m-%d}" if grant.expires_at else "always"
        case scope:
            end = f"until its {scope} ends"
    return escape_line(f"{grant.agent_id}: {grant.tool}, {what}, {end}")
