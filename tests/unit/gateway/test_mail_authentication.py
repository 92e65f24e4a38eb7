"""Who wrote a mail: only the results of the configured mail server count, and only where they are clear."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.wire.channel_config import SenderCheck
from choir_gateway.channels.email.authentication import (
    Headers,
    find_doubt,
    find_sender,
    parse_results,
)

SERVER = "mx.google.com"
GMAIL = (
    f"{SERVER}; dkim=pass header.i=@example.org header.s=20230601 header.b=kd2B/a==; "
    "spf=pass (google.com: domain of ann@example.org designates 192.0.2.1 as permitted sender) "
    "smtp.mailfrom=ann@example.org; dmarc=pass (p=NONE sp=QUARANTINE dis=NONE) header.from=example.org"
)


def headers(*results: str, sender: str = "Ann <ann@example.org>") -> Headers:
    return [*(("authentication-results", it) for it in results), ("from", sender)]


def doubt(*results: str, check: SenderCheck = "dmarc") -> str:
    return find_doubt(headers(*results), "ann@example.org", authserv_id=SERVER, check=check)


def test_the_results_of_a_large_provider_are_read() -> None:
    server, results = parse_results(GMAIL)
    assert server == SERVER
    assert [(it.method, it.result) for it in results] == [
        ("dkim", "pass"),
        ("spf", "pass"),
        ("dmarc", "pass"),
    ]
    assert results[0].properties["header.i"] == "@example.org"
    assert doubt(GMAIL) == ""
    assert doubt(GMAIL, check="aligned") == ""


@pytest.mark.parametrize(
    "results",
    [
        [f"{SERVER} 1; dmarc=pass header.from=example.org"],
        [f"{SERVER.upper()}; DMARC=PASS HEADER.FROM=EXAMPLE.ORG"],
        [f"{SERVER}; dmarc = pass (a (nested) comment; dmarc=fail) header.from = example.org"],
        [f"{SERVER}; dmarc=pass", f"{SERVER}; spf=fail smtp.mailfrom=x@else.org"],
        ["another.server; dmarc=fail", f"{SERVER}; dmarc=pass header.from=example.org"],
        [f'{SERVER}; spf=pass smtp.mailfrom="a;b"; dmarc=pass header.from=example.org'],
    ],
)
def test_a_pass_of_dmarc_proves_the_sender(results: list[str]) -> None:
    assert doubt(*results) == ""


@pytest.mark.parametrize(
    "results",
    [
        [],
        [""],
        [f"{SERVER}"],
        [f"{SERVER}; none"],
        [f"{SERVER}; dmarc=fail header.from=example.org"],
        [f"{SERVER}; dmarc=none header.from=example.org"],
        [f"{SERVER}; dmarc=pass header.from=evil.org"],
        [f"{SERVER}; dkim=pass header.d=example.org; spf=pass smtp.mailfrom=ann@example.org"],
        ["mx.evil.org; dmarc=pass header.from=example.org"],
        [f"x{SERVER}; dmarc=pass header.from=example.org"],
        [f"{SERVER}.evil.org; dmarc=pass header.from=example.org"],
        [f"(comment) {SERVER} (; dmarc=pass"],
        # the forged header is below the server's own
        [f"{SERVER}; spf=pass smtp.mailfrom=eve@evil.org", f"{SERVER}; dmarc=pass"],
        [f"{SERVER}; dmarc=fail header.from=example.org", f"{SERVER}; dmarc=pass"],
        [f"{SERVER}; dmarc=pass", f"{SERVER}; dmarc=fail"],
        [f"{SERVER}; dmarc=pass; dmarc=fail"],
        [f'{SERVER}; spf=fail smtp.mailfrom="eve; dmarc=pass header.from=example.org'],
        [f'{SERVER}; spf=fail smtp.mailfrom="eve; dmarc=pass header.from=example.org"@evil.org'],
        [f"{SERVER}; spf=fail (eve; dmarc=pass header.from=example.org)"],
        [f"{SERVER}; dmarc=pass header.from=example.org header.from=evil.org"],
        [f"{SERVER}; dmarc=pass trailing"],
        [f"{SERVER}; xdmarc=pass header.from=example.org"],
        [f"{SERVER}; dmarc=pass header.from=example.org" + " " * 20_000],
    ],
)
def test_without_a_clear_pass_the_sender_is_not_proven(results: list[str]) -> None:
    assert doubt(*results)


@pytest.mark.parametrize(
    ("result", "is_proven"),
    [
        ("dkim=pass header.d=example.org", True),
        ("dkim=pass header.i=@mail.example.org", False),
        ("dkim=pass header.d=evil.org", False),
        ("dkim=pass header.d=org", False),
        ("dkim=pass header.d=ample.org", False),
        ("dkim=fail header.d=example.org", False),
        ("spf=pass smtp.mailfrom=bounce@example.org", True),
        ("spf=pass smtp.mailfrom=example.org", True),
        ("spf=pass smtp.mailfrom=eve@evil.org", False),
        ("spf=pass", False),
        ("dkim=pass header.d=example.org; dmarc=fail", False),
        ("dkim=pass header.d=example.org; dmarc=none", True),
        ("auth=pass smtp.auth=ann@example.org", False),
    ],
)
def test_an_aligned_domain_is_enough_where_it_is_configured(result: str, is_proven: bool) -> None:
    assert (doubt(f"{SERVER}; {result}", check="aligned") == "") == is_proven
    assert doubt(f"{SERVER}; {result}")


def test_a_domain_may_vouch_for_its_subdomains() -> None:
    results = headers(f"{SERVER}; dkim=pass header.d=example.org")
    sender = "ann@mail.example.org"
    assert not find_doubt(results, sender, authserv_id=SERVER, check="aligned")


@pytest.mark.parametrize(
    ("value", "sender"),
    [
        ("ann@example.org", "ann@example.org"),
        ("Ann <ann@example.org>", "ann@example.org"),
        ('"Ångström, Ann" <ann@example.org>', "ann@example.org"),
        ('"eve@evil.org" <ann@example.org>', "ann@example.org"),
        ("Ann (work) <ann@example.org>", "ann@example.org"),
        ("=?utf-8?q?Ann?= <ann@example.org>", "ann@example.org"),
        ("ann@example.org <eve@evil.org>", None),
        ("Ann <ann@example.org>, Eve <eve@evil.org>", None),
        ("<ann@example.org> <eve@evil.org>", None),
        ("ann@example.org (eve@evil.org)", None),
        ("Friends: ann@example.org;", None),
        ("<@evil.org:ann@example.org>", None),
        ("ann@example.org)eve@evil.org", None),
        ('"ann@example.org', None),
        ("", None),
    ],
)
def test_a_sender_is_one_address_that_can_be_read_in_one_way(
    value: str, sender: str | None
) -> None:
    assert find_sender([("from", value)]) == sender


def test_two_senders_are_none() -> None:
    assert find_sender([("from", "ann@example.org"), ("from", "eve@evil.org")]) is None


@given(st.text(max_size=200))
def test_no_header_raises_or_passes_by_chance(value: str) -> None:
    parse_results(value)
    find_sender([("from", value)])
    assert doubt(f"{SERVER}; spf=fail ({value.replace(')', '').replace(chr(92), '')})")
