"""Policy on tool calls: what a call contacts, and which rule of config.json decides on it. Pure.

The arbiter asks before each call; control answers `choirctl policy explain` with the same functions.
See docs/design/policy.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import getaddresses
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_common.wire.policy import LaneKind, PolicyDecision, PolicyRule, Role, RuleCheck


@dataclass(frozen=True, slots=True)
class DestinationArguments:
    """Where a built-in tool's arguments name what it contacts."""

    urls: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    """Mail addresses, or lists of them."""
    is_open: bool = False
    """Whether it can contact hosts that its arguments do not name."""


BUILT_IN: Mapping[str, DestinationArguments] = {
    "choir.exec": DestinationArguments(is_open=True),
    "choir.web.browse": DestinationArguments(urls=("url",)),
    "choir.email.send": DestinationArguments(addresses=("to", "cc", "bcc")),
}
"""Built-in tools that contact what the model chooses. The browser's proxy checks where a page leads on."""


@dataclass(frozen=True, slots=True)
class Destinations:
    """What a call contacts, as far as its arguments say."""

    hosts: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    is_open: bool = False
    """Whether it can contact others, too."""


@dataclass(frozen=True, slots=True)
class PolicyCall:
    """A call, as far as rules can ask about it."""

    agent_id: str
    tool: str
    lane: LaneKind
    role: Role
    arguments: JsonObject
    path: str = ""
    """The canonical path in the workspace; empty if the call has none."""
    destinations: Destinations = field(default_factory=Destinations)


def find_destinations(tool: str, arguments: JsonObject, *, has_network: bool) -> Destinations:
    """Return what a call contacts; a tool of one's own `has_network` if its manifest says so."""
    sources = BUILT_IN.get(tool, DestinationArguments(is_open=has_network))
    hosts = (_host(text) for name in sources.urls for text in _texts(arguments.get(name)))
    texts = [text for name in sources.addresses for text in _texts(arguments.get(name))]
    recipients = (address.lower() for _, address in getaddresses(texts))
    return Destinations(_distinct(hosts), _distinct(recipients), sources.is_open)


def decide(
    rules: Sequence[PolicyRule], call: PolicyCall, now: datetime, *, needs_approval: bool
) -> PolicyDecision:
    """Return the decision of the first rule that applies; without one, what the tool's manifest says."""
    for place, rule in enumerate(rules):
        if not unmet_conditions(rule, call, now):
            return PolicyDecision(action=rule.action, source="config", rule=place, why=rule.why)
    if needs_approval:
        return PolicyDecision(action="ask", source="tool")
    return PolicyDecision(action="allow", source="default")


def check_rules(rules: Sequence[PolicyRule], call: PolicyCall, now: datetime) -> list[RuleCheck]:
    """Return for each rule, up to the first that applies, which of its conditions do not hold."""
    checks: list[RuleCheck] = []
    for place, rule in enumerate(rules):
        unmet = tuple(unmet_conditions(rule, call, now))
        checks.append(RuleCheck(rule=place, action=rule.action, unmet=unmet))
        if not unmet:
            break
    return checks


def unmet_conditions(rule: PolicyRule, call: PolicyCall, now: datetime) -> list[str]:
    """Return the names of a rule's conditions that do not hold for a call."""
    destinations = call.destinations
    conditions = {
        "until": rule.until is None or now < rule.until,
        "tools": _matches(call.tool, rule.tools),
        "agents": not rule.agents or call.agent_id in rule.agents,
        "lanes": not rule.lanes or call.lane in rule.lanes,
        "roles": not rule.roles or call.role in rule.roles,
        "hosts": _reaches(rule, rule.hosts, destinations.hosts, is_open=destinations.is_open),
        "recipients": _reaches(rule, rule.recipients, destinations.recipients, is_open=False),
        "paths": not rule.paths or (call.path != "" and _matches(call.path, rule.paths)),
        "arguments": all(
            name in call.arguments and _matches(_as_text(call.arguments[name]), (pattern,))
            for name, pattern in rule.arguments.items()
        ),
    }
    return [name for name, holds in conditions.items() if not holds]


def _reaches(
    rule: PolicyRule, patterns: Sequence[str], texts: Sequence[str], *, is_open: bool
) -> bool:
    """Return whether a condition on destinations holds: for `allow` no other destination may remain."""
    if not patterns:
        return True
    lower = [pattern.lower() for pattern in patterns]
    matches = [_matches(destination, lower) for destination in texts]
    if rule.action == "allow":
        return bool(matches) and all(matches) and not is_open
    return any(matches)


def _matches(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _texts(value: JsonValue) -> Iterator[str]:
    for item in value if isinstance(value, list) else (value,):
        if isinstance(item, str):
            yield item


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _distinct(texts: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
