"""Policy on tool calls: what a call contacts, and which rule of config.json decides on it. Pure.

The arbiter asks before each call; control answers `choirctl policy explain` with the same functions.
See docs/design/policy.md.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from ipaddress import IPv4Address

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_common.wire.policy import LaneKind, PolicyDecision, PolicyRule, Role, RuleCheck

_PLAIN_URL = re.compile(
    r"https?://(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)*\.?)(?::[0-9]{1,5})?(?:[/?#][^\x00-\x20\x7f]*)?\Z",
    re.IGNORECASE | re.ASCII,
)
_ADDRESS = re.compile(r"([^\s@<>()\[\],;:\"\\]+)@([^\s@<>()\[\],;:\"\\]+)")


@dataclass(frozen=True, slots=True)
class DestinationArguments:
    """Where a built-in tool's arguments name what it contacts."""

    urls: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    """Mail addresses, or lists of them."""
    conversations: tuple[str, ...] = ()
    """Names of the agent's conversations."""
    is_open: bool = False
    """Whether it can contact hosts that its arguments do not name."""


BUILT_IN: Mapping[str, DestinationArguments] = {
    "choir.exec": DestinationArguments(is_open=True),
    "choir.web.browse": DestinationArguments(urls=("url",)),
    "choir.email.send": DestinationArguments(addresses=("to", "cc", "bcc")),
    "choir.message.send": DestinationArguments(conversations=("conversation",)),
}
"""Built-in tools that contact what the model chooses. The browser's proxy checks where a page leads on."""
CONVERSATION_PREFIX = "dm:"
"""Before the name of a conversation among recipients. It is no part of a mail address."""


@dataclass(frozen=True, slots=True)
class Destinations:
    """What a call contacts, as far as its arguments say."""

    hosts: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    """Mail addresses, and conversations as `dm:NAME`."""
    is_open: bool = False
    """Whether it can contact others, too."""
    is_unclear: bool = False
    """Whether an argument may mean another destination to the program that reads it. Such a call is never
    allowed by its destinations, and every rule on destinations that asks or denies applies to it."""


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
    spent_usd: Decimal | None = None
    """What the agent has spent today; None if that is not known."""
    known_recipients: tuple[str, ...] = ()
    """Mail addresses that the user named, or to which mail was sent before, and conversations of the same
    person."""


def has_money_rules(rules: Iterable[PolicyRule]) -> bool:
    """Return whether a rule depends on what the agent has spent."""
    return any(rule.spent_above is not None for rule in rules)


def find_addresses(text: str) -> tuple[str, ...]:
    """Return the mail addresses that a text names, as they are compared with recipients."""
    parts = (f"{local}@{domain.rstrip('.!?*_~')}" for local, domain in _ADDRESS.findall(text))
    return _distinct(address for part in parts for address in _recipients(part) or ())


def find_destinations(tool: str, arguments: JsonObject, *, has_network: bool) -> Destinations:
    """Return what a call contacts; a tool of one's own `has_network` if its manifest says so."""
    sources = BUILT_IN.get(tool, DestinationArguments(is_open=has_network))
    urls = [text for name in sources.urls for text in _texts(arguments.get(name))]
    lines = [text for name in sources.addresses for text in _texts(arguments.get(name))]
    names = [text for name in sources.conversations for text in _texts(arguments.get(name))]
    hosts, recipients = [_host(url) for url in urls], [_recipients(line) for line in lines]
    recipients += [[f"{CONVERSATION_PREFIX}{name}"] for name in names]
    return Destinations(
        hosts=_distinct(host for host in hosts if host is not None),
        recipients=_distinct(address for group in recipients for address in group or ()),
        is_open=sources.is_open,
        is_unclear=None in hosts or None in recipients,
    )


MAIL_RULE = PolicyRule(
    action="ask",
    tools=("choir.email.send",),
    why="Mail to new recipients: nobody has named them here, and no rule in `policy` allows them.",
)
CONVERSATION_RULE = PolicyRule(
    action="ask",
    tools=("choir.message.send",),
    arguments={"conversation": "*"},
    why="The message goes to a conversation that is not known to be of the same person alone.",
)
RULES_ON_RECIPIENTS = (MAIL_RULE, CONVERSATION_RULE)
"""They apply unless all recipients are known."""
DEFAULT_RULES: Sequence[PolicyRule] = (
    *RULES_ON_RECIPIENTS,
    PolicyRule(
        action="ask",
        tools=("choir.exec",),
        arguments={"command": "*git*push*"},
        why="The command looks like a push to a git repository.",
    ),
)
"""Rules that apply after those of config.json. A command can hide a push from the pattern, for example in a
script, so the second rule does not prevent pushes."""


def decide(
    rules: Sequence[PolicyRule], call: PolicyCall, now: datetime, *, needs_approval: bool
) -> PolicyDecision:
    """Return the decision of the first rule that applies, of the owner or by default.

    Without one, the tool's manifest decides.
    """
    for place, rule in enumerate(rules):
        if not unmet_conditions(rule, call, now):
            return PolicyDecision(
                action=rule.action,
                source="config",
                rule=place,
                why=rule.why,
                names_destinations=bool(rule.hosts or rule.recipients),
            )
    for rule in DEFAULT_RULES:
        if rule in RULES_ON_RECIPIENTS and _knows_recipients(call):
            continue
        if not unmet_conditions(rule, call, now):
            return PolicyDecision(action=rule.action, source="default", why=rule.why)
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
        "spent_above": _has_spent(rule, call.spent_usd),
        "tools": _matches(call.tool, rule.tools),
        "agents": not rule.agents or call.agent_id in rule.agents,
        "lanes": not rule.lanes or call.lane in rule.lanes,
        "roles": not rule.roles or call.role in rule.roles,
        "hosts": _reaches(rule, rule.hosts, destinations.hosts, call),
        "recipients": _reaches(rule, rule.recipients, destinations.recipients, call),
        "paths": not rule.paths or (call.path != "" and _matches(call.path, rule.paths)),
        "arguments": all(
            name in call.arguments and _matches(_as_text(call.arguments[name]), (pattern,))
            for name, pattern in rule.arguments.items()
        ),
    }
    return [name for name, holds in conditions.items() if not holds]


def _knows_recipients(call: PolicyCall) -> bool:
    recipients = call.destinations.recipients
    if not recipients or call.destinations.is_unclear:
        return False
    return set(recipients) <= set(call.known_recipients)


def _has_spent(rule: PolicyRule, spent_usd: Decimal | None) -> bool:
    if rule.spent_above is None:
        return True
    return rule.action != "allow" if spent_usd is None else spent_usd > rule.spent_above


def _reaches(
    rule: PolicyRule, patterns: Sequence[str], texts: Sequence[str], call: PolicyCall
) -> bool:
    """Return whether a condition on destinations holds: for `allow` no other destination may remain."""
    if not patterns:
        return True
    # Only the names of conversations have upper case.
    lower = [p if p.startswith(CONVERSATION_PREFIX) else p.lower() for p in patterns]
    matches = [_matches(text, lower) for text in texts]
    destinations = call.destinations
    if rule.action == "allow":
        has_others = destinations.is_open or destinations.is_unclear
        return bool(matches) and all(matches) and not has_others
    return any(matches) or destinations.is_unclear


def _matches(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _texts(value: JsonValue) -> Iterator[str]:
    for item in value if isinstance(value, list) else (value,):
        if isinstance(item, str):
            yield item


def _host(url: str) -> str | None:
    """Return the host of a URL; None if a browser could read another one from it.

    Browsers repair URLs (backslashes, spaces, other alphabets, numbers for addresses); urllib does not.
    """
    match = _PLAIN_URL.match(url)
    if match is None:
        return None
    host = match["host"].rstrip(".").lower()
    is_number = host.rpartition(".")[2][:1].isdigit()
    return None if is_number and not _is_address(host) else host


def _is_address(host: str) -> bool:
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


def _recipients(line: str) -> list[str] | None:
    """Return all that looks like a mail address in a text, also in a name; None if not all can be read."""
    parts = _ADDRESS.findall(line)
    if not parts or len(parts) != line.count("@"):
        return None
    try:
        return [f"{local}@{domain.encode('idna').decode()}".lower() for local, domain in parts]
    except UnicodeError:
        return None


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
