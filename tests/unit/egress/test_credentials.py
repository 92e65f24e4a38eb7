"""Passwords at the egress proxy, and what the configuration lets agents reach."""

import base64

import pytest

from choir_common.egress.credentials import ProxyIdentity, authenticate, proxy_password, proxy_url
from choir_common.wire.config import Config
from choir_control.agents.egress_table import agent_egress

KEY, OTHER_KEY = "11" * 32, "22" * 32


def header(user: ProxyIdentity, key: str = KEY) -> str:
    credentials = f"{user.name}:{proxy_password(key, user)}".encode()
    return f"Basic {base64.b64encode(credentials).decode()}"


@pytest.mark.parametrize(
    "user",
    [
        ProxyIdentity(),
        ProxyIdentity("choir.exec", "call_1"),
        ProxyIdentity("choir.exec", "call_1", ("a.example", "b.example")),
        ProxyIdentity("notes.sync", "call_1", ("*.example",), is_limited=True),
    ],
)
def test_a_user_is_known_by_its_password(user: ProxyIdentity) -> None:
    assert authenticate(KEY, header(user)) == user


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "Bearer x",
        "Basic",
        "Basic !!!",
        f"Basic {base64.b64encode(b'agent').decode()}",
        f"Basic {base64.b64encode(bytes([0xFF, 0xFE])).decode()}",
        header(ProxyIdentity(), OTHER_KEY),
        f"Basic {base64.b64encode(f'~x:{proxy_password(KEY, ProxyIdentity())}'.encode()).decode()}",
    ],
)
def test_anything_else_is_nobody(wrong: str) -> None:
    assert authenticate(KEY, wrong) is None


def test_a_call_cannot_add_hosts_to_its_name() -> None:
    password = proxy_password(KEY, ProxyIdentity("choir.exec", "call_1", ("a.example",)))
    names = ("~a.example,evil.example", "", "~=a.example", "~*")
    for name in (f"choir.exec~call_1{more}" for more in names):
        token = base64.b64encode(f"{name}:{password}".encode()).decode()
        assert authenticate(KEY, f"Basic {token}") is None


def test_a_call_id_needs_no_encoding_in_a_url() -> None:
    user = ProxyIdentity("choir.exec", "a/b@c:~ü" + "x" * 200)
    url = proxy_url(KEY, user, "127.0.0.1", 8)
    name = url.removeprefix("http://").partition(":")[0]
    assert name.startswith("choir.exec~a-b-c---x")
    assert len(name) < 100


def test_an_agent_gets_the_servers_of_the_configuration_and_the_rules_on_hosts() -> None:
    config = Config.model_validate_json(
        b"""{"agents": {}, "workspaces": {},
        "models": {"own": {"api": "ollama", "model": "m", "endpoint": "http://gpu:11434"},
                   "far": {"model": "m", "endpoint": "https://[fd00::1]/v1"}},
        "email_accounts": {"mail": {"smtp_host": "mx.lan", "smtp_port": 465, "imap_host": "mx.lan",
                                    "imap_port": 993, "sharing": "shared", "secret": "s"}},
        "git_identities": {"me": {"name": "n", "email": "e@x.org", "secret": "s",
                                  "hosts": ["git.lan", "other.lan:8443"]}},
        "policy": [{"action": "deny", "tools": ["choir.exec"]},
                   {"action": "deny", "hosts": ["evil.example"]},
                   {"action": "deny", "hosts": ["x"], "agents": ["other"]},
                   {"action": "deny", "hosts": ["x"], "lanes": ["core"]}]}"""
    )
    egress = agent_egress(config, "main", KEY, ("https://control:9400", "unix:///x", ""))
    assert egress.own_hosts == (
        *("[fd00::1]:443", "control:9400", "gpu:11434", "mx.lan:465", "mx.lan:993"),
    )
    assert egress.tool_hosts == ("git.lan:22", "git.lan:443", "other.lan:8443")
    assert [rule.hosts for rule in egress.rules] == [("evil.example",)]
    hosts = {"pypi.org", "gpu", "[fd00::1]", "mx.lan", "git.lan", "other.lan"}
    assert hosts < set(egress.known_hosts)
    named = agent_egress(config, "main", KEY, (), allowed_hosts=("named.example",))
    assert set(named.known_hosts) - set(egress.known_hosts) == {"named.example"}
