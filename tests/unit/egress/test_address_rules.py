"""The guard's rules by themselves: addresses, the operator's exemptions, request heads."""

import asyncio
import ipaddress

import pytest

from choir_common.egress.addresses import is_own_address, is_public_address, parse_allowlist
from choir_common.egress.http_head import InvalidHead, parse_target, read_head
from choir_common.errors import StartupError


@pytest.mark.parametrize("text", ["93.184.215.14", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_an_address_of_the_open_internet_is_public(text: str) -> None:
    assert is_public_address(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "169.254.169.254",
        "100.64.0.1",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fec0::1",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::a00:1",
        "2002:c0a8:1::",
        "2001:db8::1",
        "192.0.0.8",
        "192.0.0.170",
        "192.88.99.1",
        "3fff::1",
        "5f00::1",
        "2606:4700::5efe:10.0.0.1",
        "2606:4700::200:5efe:808:808",
        "fe80::5efe:8.8.8.8",
    ],
)
def test_any_other_address_is_not(text: str) -> None:
    assert not is_public_address(ipaddress.ip_address(text))


def test_the_machines_own_addresses_are_known() -> None:
    assert is_own_address(ipaddress.ip_address("127.0.0.1"))
    assert not is_own_address(ipaddress.ip_address("93.184.215.14"))


def test_an_exemption_covers_what_it_names_and_nothing_beside() -> None:
    allow = parse_allowlist(
        "127.0.0.1:8080, intra.example:443, 10.0.0.0/8, [::1]:99", "CHOIR_BROWSER_ALLOW"
    )
    loopback, ten = ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("10.9.9.9")
    assert allow.covers("localhost", loopback, 8080)
    assert not allow.covers("localhost", loopback, 8081)
    assert allow.covers("Intra.Example", loopback, 443)
    assert not allow.covers("other.example", loopback, 443)
    assert allow.covers("anything", ten, 1)
    assert allow.covers("x", ipaddress.ip_address("::1"), 99)


@pytest.mark.parametrize(
    "text", ["127.0.0.1:http", "host", "host:0", "host:70000", ":80", "1.2.3/8"]
)
def test_an_exemption_that_makes_no_sense_is_named(text: str) -> None:
    with pytest.raises(StartupError, match="CHOIR_BROWSER_ALLOW"):
        parse_allowlist(text, "CHOIR_BROWSER_ALLOW")


@pytest.mark.parametrize("uri", ["/etc/passwd", "https://x/", "ftp://x/", "http://", "http://[::1"])
def test_a_proxy_request_names_an_absolute_http_url(uri: str) -> None:
    with pytest.raises(InvalidHead):
        parse_target("GET", uri)


def test_a_target_is_read_with_its_port_and_query() -> None:
    target = parse_target("GET", "http://user@Host.example:81/a?b=c")
    assert (target.host, target.port, target.path) == ("host.example", 81, "/a?b=c")
    assert parse_target("CONNECT", "[::1]:443").host == "::1"


async def test_a_head_that_is_no_http_is_refused() -> None:
    for raw in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n bad: x\r\n\r\n", b"GET / HTTP/1.1\r\nX"):
        reader = asyncio.StreamReader(limit=100)
        reader.feed_data(raw)
        reader.feed_eof()
        with pytest.raises(InvalidHead):
            await read_head(reader)


async def test_what_belongs_to_the_hop_ends_at_the_proxy() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(
        b"GET http://x/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic abc\r\n"
        b"Connection: keep-alive\r\n\r\n"
    )
    head = await read_head(reader)
    assert head is not None
    assert head.render("GET / HTTP/1.1") == (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
