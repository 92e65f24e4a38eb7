"""Grants: a person's yes covers the same agent, tool and destinations, and nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.errors import InvalidRequest
from choir_common.grants import (
    CallScope,
    call_subject,
    check_scope,
    covers,
    describe_grant,
    offered_scopes,
    parse_days,
    parse_scope,
)
from choir_common.wire.grants import EVERY_SCOPE, GrantScope, GrantView
from choir_common.wire.model import JsonObject

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
PLACE = CallScope("s1", "job1")
ADDRESSES = ("ann@example.com", "bob@example.com", "eve@evil.org")
TOOLS = ("choir.email.send", "choir.web.browse", "choir.exec", "notes.sync")
LONGER: tuple[GrantScope, ...] = ("job", "session", "always")


def grant_of(payload: JsonObject, scope: GrantScope, agent_id: str = "main") -> GrantView:
    subject = call_subject(agent_id, payload)
    return GrantView(
        grant_id="grant_1",
        agent_id=agent_id,
        tool=subject.tool,
        destinations=subject.destinations,
        digest=subject.digest,
        scope=scope,
        session_id=PLACE.session_id,
        job_id=PLACE.job_id,
        approval_id="appr_1",
        granted_by="operator",
        granted_at=NOW,
        expires_at=NOW + timedelta(days=30) if scope == "always" else None,
    )


def mail(*to: str, text: str = "hi") -> JsonObject:
    return {"tool": "choir.email.send", "input": {"to": [*to], "subject": "s", "text": text}}


payloads = st.one_of(
    st.builds(
        lambda to, text: mail(*to, text=text),
        st.lists(st.sampled_from(ADDRESSES), max_size=3),
        st.sampled_from(["hi", "ho"]),
    ),
    st.builds(
        lambda tool, url: {"tool": tool, "input": {"url": url}},
        st.sampled_from(TOOLS),
        st.sampled_from(
            ["https://a.example", "https://b.example", "https://a.example\\\\b.example"]
        ),
    ),
)


@given(first=payloads, later=payloads, scope=st.sampled_from(LONGER), other=st.booleans())
def test_a_grant_never_covers_another_tool_agent_or_destination(
    first: JsonObject, later: JsonObject, scope: GrantScope, other: bool
) -> None:
    grant = grant_of(first, scope)
    subject = call_subject("other" if other else "main", later)
    if not covers(grant, subject, place=PLACE, now=NOW):
        return
    assert (subject.agent_id, subject.tool) == ("main", grant.tool)
    if grant.destinations:
        assert subject.destinations and set(subject.destinations) <= set(grant.destinations)
    else:
        assert first == later, "without named destinations only equal arguments are covered"


@given(payload=payloads, scope=st.sampled_from(LONGER))
def test_a_grant_covers_the_call_that_was_approved(payload: JsonObject, scope: GrantScope) -> None:
    grant, subject = grant_of(payload, scope), call_subject("main", payload)
    assert covers(grant, subject, place=PLACE, now=NOW)
    named = covers(grant, subject, place=PLACE, now=NOW, use="named")
    assert named == bool(subject.destinations)


def test_a_yes_to_one_recipient_covers_other_words_but_no_other_recipient() -> None:
    grant = grant_of(mail("Ann <ann@example.com>"), "always")
    assert covers(
        grant, call_subject("main", mail("ann@example.com", text="x")), place=PLACE, now=NOW
    )
    for to in (("ann@example.com", "eve@evil.org"), ("ann@example.com.evil.org",), (), ("ann",)):
        assert not covers(grant, call_subject("main", mail(*to)), place=PLACE, now=NOW)


@pytest.mark.parametrize(
    ("scope", "place", "expected"),
    [
        ("job", PLACE, True),
        ("job", CallScope("s1", "job2"), False),
        ("job", CallScope("s1"), False),
        ("job", CallScope("s2", "job1"), False),
        ("session", CallScope("s1", "job2"), True),
        ("session", CallScope("s2"), False),
        ("always", CallScope("s2"), True),
        ("once", PLACE, False),
    ],
)
def test_a_grant_ends_with_its_scope(scope: GrantScope, place: CallScope, expected: bool) -> None:
    subject = call_subject("main", mail("ann@example.com"))
    assert (
        covers(grant_of(mail("ann@example.com"), scope), subject, place=place, now=NOW) == expected
    )


def test_an_expired_grant_covers_nothing() -> None:
    grant, subject = (
        grant_of(mail("ann@example.com"), "always"),
        call_subject("main", mail("ann@example.com")),
    )
    assert grant.expires_at is not None
    assert covers(grant, subject, place=None, now=grant.expires_at - timedelta(seconds=1))
    assert not covers(grant, subject, place=None, now=grant.expires_at)
    assert not covers(grant, replace(subject, tool="choir.exec"), place=None, now=NOW)


def test_longer_scopes_are_offered_for_calls_only_and_job_inside_a_job() -> None:
    assert offered_scopes("call", EVERY_SCOPE, "job1") == EVERY_SCOPE
    assert offered_scopes("call", EVERY_SCOPE, None) == ("once", "session", "always")
    assert offered_scopes("call", ("once",), "job1") == ("once",)
    assert offered_scopes("config_change", EVERY_SCOPE, "job1") == ("once",)
    assert get_args(GrantScope) == EVERY_SCOPE


def test_a_scope_that_was_not_offered_is_refused() -> None:
    check_scope("always", ("once", "always"), 3)
    for scope, days in (("job", None), ("once", 3)):
        with pytest.raises(InvalidRequest):
            check_scope(parse_scope(scope), ("once", "always"), days)
    for text in ("", "0d", "30", "9999d", "1w"):
        with pytest.raises(InvalidRequest):
            parse_days(text)
    with pytest.raises(InvalidRequest):
        parse_scope("ever")
    assert parse_days("30d") == 30


def test_a_grant_is_described_with_what_it_covers_and_its_end() -> None:
    assert describe_grant(grant_of(mail("ann@example.com"), "always")) == (
        "main: choir.email.send, calls to ann@example.com, until 2026-12-23"
    )
    command: JsonObject = {"tool": "choir.exec", "input": {"command": "ls"}}
    assert describe_grant(grant_of(command, "job")).endswith("equal calls, until its job ends")
