"""Rules on tool calls: which one decides, and what a call contacts."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from choir_common.policy import (
    Destinations,
    PolicyCall,
    check_rules,
    decide,
    find_destinations,
    has_money_rules,
    unmet_conditions,
)
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import PolicyRule

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def call(
    tool: str = "choir.email.send", arguments: JsonObject | None = None, **more: Any
) -> PolicyCall:
    given = arguments or {}
    reached = find_destinations(tool, given, has_network=False)
    fields = {"agent_id": "main", "lane": "edge", "role": "user", "destinations": reached}
    return PolicyCall(tool=tool, arguments=given, **{**fields, **more})


def applies(asked: PolicyCall, **rule: Any) -> bool:
    return unmet_conditions(PolicyRule(**{"action": "deny", **rule}), asked, NOW) == []


MAIL = call(
    spent_usd=Decimal(2), arguments={"to": ["Ann <Ann@Example.com>"], "cc": ["bob@evil.org"]}
)
PAGE = call("choir.web.browse", {"action": "open", "url": "https://Docs.Example.com./a?b"})


def test_destinations_come_from_the_arguments_of_built_in_tools() -> None:
    assert MAIL.destinations == Destinations(recipients=("ann@example.com", "bob@evil.org"))
    assert PAGE.destinations == Destinations(hosts=("docs.example.com",))
    assert find_destinations("choir.exec", {"command": "ls"}, has_network=False).is_open
    assert find_destinations("mine.tool", {}, has_network=True).is_open
    assert not find_destinations("mine.tool", {}, has_network=False).is_open
    two = find_destinations(
        "choir.email.send", {"to": ["ann@example.com, bob@evil.org"]}, has_network=False
    )
    assert two.recipients == ("ann@example.com", "bob@evil.org")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"tools": ("choir.email.*",)}, True),
        ({"tools": ("choir.web.*", "choir.email.send")}, True),
        ({"tools": ("choir.web.*",)}, False),
        ({"agents": ("main",)}, True),
        ({"agents": ("other",)}, False),
        ({"lanes": ("core",)}, False),
        ({"roles": ("user",)}, True),
        ({"roles": ("admin",)}, False),
        ({"recipients": ("*@evil.org",)}, True),
        ({"recipients": ("ANN@example.com",)}, True),
        ({"recipients": ("*@other.org",)}, False),
        ({"hosts": ("*",)}, False),
        ({"paths": ("*",)}, False),
        ({"arguments": {"to": "*Ann*"}}, True),
        ({"arguments": {"subject": "?*"}}, False),
        ({"until": NOW + timedelta(seconds=1)}, True),
        ({"until": NOW}, False),
        ({"spent_above": Decimal("1.5")}, True),
        ({"spent_above": Decimal(2)}, False),
    ],
)
def test_each_condition_of_a_rule_counts(rule: dict[str, Any], expected: bool) -> None:
    assert applies(MAIL, **rule) is expected


def test_a_rule_that_allows_needs_all_destinations_and_no_others() -> None:
    assert not applies(MAIL, action="allow", recipients=("*@example.com",))
    assert applies(MAIL, action="allow", recipients=("*@example.com", "*@evil.org"))
    assert applies(PAGE, action="allow", hosts=("*.example.com",))
    assert not applies(call("choir.exec", {"command": "x"}), action="allow", hosts=("*",))
    assert not applies(call(arguments={"to": []}), action="allow", recipients=("*",))


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.org\\@docs.example.com/",
        "http://docs.example.com@evil.org/",
        "http:evil.org",
        " http://evil.org",
        "http://evil\u3002org/",
        "http://1572395042/",
        "http://0x5d.184.216.34/",
        "http://[2606:2800:220:1::1]/",
        "javascript:fetch('//evil.org')",
        "http://docs.example.com/\nx",
    ],
)
def test_a_url_that_a_browser_may_read_otherwise_is_never_allowed_and_always_denied(
    url: str,
) -> None:
    page = call("choir.web.browse", {"url": url})
    assert page.destinations == Destinations(is_unclear=True)
    assert not applies(page, action="allow", hosts=("*",))
    assert applies(page, action="deny", hosts=("nobody.example.com",))


@pytest.mark.parametrize(
    ("line", "recipients"),
    [
        ("ann@example.com <bob@evil.org>", ("ann@example.com", "bob@evil.org")),
        ('"ann@example.com" <bob@evil.org>', ("ann@example.com", "bob@evil.org")),
        ("bob@evil\u3002org", ("bob@evil.org",)),
        ('"bob x"@evil.org', None),
        ("bob", None),
    ],
)
def test_every_address_in_a_recipient_counts(line: str, recipients: tuple[str, ...] | None) -> None:
    mail = call(arguments={"to": [line]})
    unclear = Destinations(is_unclear=True)
    assert mail.destinations == (unclear if recipients is None else Destinations((), recipients))
    assert not applies(mail, action="allow", recipients=("*@example.com",))
    assert applies(mail, action="deny", recipients=("*@evil.org",))


def test_a_path_is_that_of_the_workspace() -> None:
    written = call("choir.fs.write", {"path": "./a/../notes/x"}, path="notes/x")
    assert applies(written, paths=("notes/*",)) and not applies(written, paths=("a/*",))


def test_the_first_rule_that_applies_decides() -> None:
    rules = [
        PolicyRule(action="allow", recipients=("*@example.com",)),
        PolicyRule(action="ask", tools=("choir.email.*",), why="mail"),
        PolicyRule(action="deny"),
    ]
    decision = decide(rules, MAIL, NOW, needs_approval=False)
    assert (decision.action, decision.source, decision.rule, decision.why) == (
        "ask",
        "config",
        1,
        "mail",
    )
    assert decide(rules, PAGE, NOW, needs_approval=False).rule == 2
    assert [(check.rule, check.unmet) for check in check_rules(rules, MAIL, NOW)] == [
        (0, ("recipients",)),
        (1, ()),
    ]


def test_without_a_rule_the_tools_manifest_decides() -> None:
    assert decide([], PAGE, NOW, needs_approval=True).source == "tool"
    assert decide([], PAGE, NOW, needs_approval=True).action == "ask"
    assert decide([], PAGE, NOW, needs_approval=False).action == "allow"
    allowed = [PolicyRule(action="allow")]
    assert decide(allowed, PAGE, NOW, needs_approval=True).action == "allow"


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("git push origin main", "ask"),
        ("cd repo && git -C . push", "ask"),
        ("git pull", "allow"),
    ],
)
def test_a_push_asks_by_default(command: str, action: str) -> None:
    decision = decide([], call("choir.exec", {"command": command}), NOW, needs_approval=False)
    assert (decision.action, decision.source) == (action, "default")


def test_mail_asks_by_default_and_a_rule_of_the_owner_is_stronger() -> None:
    decision = decide([], MAIL, NOW, needs_approval=False)
    assert (decision.action, decision.source, bool(decision.why)) == ("ask", "default", True)
    allowed = [PolicyRule(action="allow", recipients=MAIL.destinations.recipients)]
    assert decide(allowed, MAIL, NOW, needs_approval=False).action == "allow"


def test_a_misspelt_condition_is_an_error_and_not_a_wider_rule() -> None:
    with pytest.raises(ValidationError):
        PolicyRule.model_validate_json('{"action": "allow", "host": ["example.com"]}')


def test_an_unknown_sum_makes_rules_that_ask_or_deny_apply_and_none_that_allows() -> None:
    unknown = call("choir.exec", {"command": "ls"})
    limit = Decimal(1)
    assert applies(unknown, action="ask", spent_above=limit)
    assert applies(unknown, action="deny", spent_above=limit)
    assert not applies(unknown, action="allow", spent_above=limit)
    assert has_money_rules((PolicyRule(action="ask", spent_above=limit),))
    assert not has_money_rules((PolicyRule(action="ask"),))
