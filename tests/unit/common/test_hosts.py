"""Hosts in texts, and which patterns make a host known."""

import pytest

from choir_common.hosts import find_hosts, find_url_hosts, is_known_host


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("Read https://Blog.Example/post?id=4, please.", ("blog.example",)),
        ("(https://a.example:8443/x) and https://b.example.", ("a.example", "b.example")),
        ("git clone git@forge.example:me/tool.git", ("forge.example",)),
        ("What is new on example.com? And www.swiss.ch/news?", ("example.com", "www.swiss.ch")),
        ("Run main.py, then read notes.md and lib.rs.", ()),
        ("Write to ann@example.com.", ()),
        ("https://known.example@evil.example/", ("evil.example",)),
        ("https://-bad-.example/ https://bad..example/ https://*.example/", ()),
        ("http://10.0.0.1/x", ("10.0.0.1",)),
    ],
)
def test_hosts_are_found_in_urls_in_addresses_of_git_and_alone(
    text: str, hosts: tuple[str, ...]
) -> None:
    assert find_hosts(text) == hosts


def test_a_host_alone_is_no_url() -> None:
    assert find_url_hosts("example.com and https://a.example/") == ("a.example",)


@pytest.mark.parametrize(
    ("host", "pattern", "expected"),
    [
        ("docs.example.com", "*.example.com", True),
        ("WWW.Example.com.", "example.com", True),
        ("example.com", "www.example.com", True),
        ("evil-example.com", "example.com", False),
        ("example.com.evil.org", "example.com*.org.", True),
        ("sub.example.com", "example.com", False),
        ("any.example", "*", True),
    ],
)
def test_a_pattern_makes_its_hosts_known_and_no_others(
    host: str, pattern: str, expected: bool
) -> None:
    assert is_known_host(host, (pattern,)) is expected
