"""Which keys the proxy adds, for which servers and tools, and how they are masked."""

from pathlib import Path

import orjson
import pytest

from choir_common.egress.key_placeholders import is_placeholder, key_placeholder
from choir_common.wire.config import (
    AgentSettings,
    Budgets,
    EmailConfig,
    GitIdentityConfig,
    ModelConfig,
    NotionConfig,
    SearchConfig,
)
from choir_control.agents.proxied_keys import proxied_keys, read_tool_resources
from choir_egress.response_mask import ResponseMask

KEY = "ab" * 32
VALUES = {"model": "sk-model-1", "git": "ghp_token-1", "notion": "ntn-key-1", "mail": "me:password"}


def settings(**changes: object) -> AgentSettings:
    """Return settings with a model, a git identity and Notion."""
    return AgentSettings(
        **{
            "model_name": "default",
            "model": ModelConfig(model="m", endpoint="https://api.example.com/v1", secret="model"),
            "budgets": Budgets(),
            "heartbeat_interval_ms": 1000,
            "rate_limit_retry_ms": 1000,
            "event_window": 50,
            "git_identity": GitIdentityConfig(
                name="D", email="d@example.org", secret="git", hosts=("git.example.com:8443",)
            ),
            "notion": NotionConfig(secret="notion"),
            **changes,
        }  # type: ignore[arg-type]
    )


def servers(found: AgentSettings, values: dict[str, str] = VALUES) -> dict[str, tuple[str, ...]]:
    keys = proxied_keys(found, KEY, values, frozenset())
    return {name: key.servers for name, key in keys.items()}


def test_each_key_is_for_the_servers_of_its_own_resource() -> None:
    assert servers(settings()) == {
        "git": ("https://git.example.com:8443",),
        "model": ("https://api.example.com:443",),
        "notion": ("https://api.notion.com:443",),
    }
    other = ModelConfig(model="n", endpoint="http://10.0.0.1:8000/v1", secret="model")
    assert servers(settings(fallback_models={"other": other}))["model"] == (
        "http://10.0.0.1:8000",
        "https://api.example.com:443",
    )


def test_only_commands_use_the_git_token() -> None:
    keys = proxied_keys(settings(), KEY, VALUES, frozenset())
    assert {name: key.tools for name, key in keys.items()} == {
        "git": ("choir.exec",),
        "model": (),
        "notion": (),
    }


def test_a_secret_that_is_needed_outside_of_requests_stays_with_the_agent() -> None:
    mail = EmailConfig(
        smtp_host="m", smtp_port=465, imap_host="m", imap_port=993, sharing="shared", secret="model"
    )
    assert "model" not in servers(settings(email=mail))
    search = SearchConfig(secret="notion")
    keys = proxied_keys(settings(search=search), KEY, VALUES, frozenset({"notion"}))
    assert "notion" not in keys and "model" in keys
    private_key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n"
    assert "git" not in servers(settings(), {**VALUES, "git": private_key})
    assert "model" not in servers(settings(), {**VALUES, "model": "s p a c e"})
    assert "model" not in servers(settings(), {"git": "ghp_token-1"})


@pytest.mark.parametrize("host", ["git.example.com/org", "a@b", "[::1]:3000", "h:99999", "a b", ""])
def test_a_git_host_of_another_form_leaves_the_token_with_the_agent(host: str) -> None:
    identity = GitIdentityConfig(name="D", email="d@x.org", secret="git", hosts=("h.org", host))
    assert "git" not in servers(settings(git_identity=identity))
    odd = ModelConfig(model="m", endpoint="http://exa_mple!.com/v1", secret="model")
    assert "model" not in servers(settings(model=odd))


def test_placeholders_differ_by_agent_and_secret_and_not_by_value() -> None:
    first = key_placeholder(KEY, "model")
    assert is_placeholder(first) and not is_placeholder("sk-model-1") and not is_placeholder(None)
    assert len({first, key_placeholder("cd" * 32, "model"), key_placeholder(KEY, "git")}) == 3
    rotated = proxied_keys(settings(), KEY, {**VALUES, "model": "sk-model-2"}, frozenset())
    assert rotated["model"].placeholder == first


def test_resources_of_external_tools_are_read_from_their_manifests(tmp_path: Path) -> None:
    runtime = {"timeout_ms": 1000, "side_effect": "read", "idempotent": True}
    llm = {"name": "a.b", "description": "d", "parameters": {"type": "object"}}
    manifest = {"llm": llm, "runtime": {**runtime, "secret_resources": ["notion"]}}
    tools = tmp_path / "tools" / "agent"
    tools.mkdir(parents=True)
    (tools / "b.json").write_bytes(orjson.dumps(manifest))
    (tools / "broken.json").write_text("{")
    assert read_tool_resources(tmp_path) == {"notion"}
    assert read_tool_resources(tmp_path / "none") == frozenset()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_a_key_in_a_response_is_masked_however_it_is_cut(step: int) -> None:
    mask = ResponseMask(["sk-secret-value"])
    body = b"\xff\x00 sk-sec sk-secret-value, sk-secret-valu\xe9 sk-s"
    pieces = [mask.add(body[start : start + step]) for start in range(0, len(body), step)]
    whole = b"".join(pieces) + mask.finish()
    assert whole == body.replace(b"sk-secret-value", b"[redacted]")


def test_only_what_may_begin_a_key_is_held_back() -> None:
    mask = ResponseMask(["sk-secret-value"])
    assert mask.add(b"data: first\n\n") == b"data: first\n\n"
    assert mask.add(b"data: sk-sec") == b"data: "
    assert mask.add(b"tion\n\n") == b"sk-section\n\n"
