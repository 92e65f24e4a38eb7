"""`choirctl mcp import`: files of other programs become settings, keys become secrets, twice is once."""

import json
from pathlib import Path

import pytest

from choir_common.errors import InvalidRequest
from choirctl.start.mcp_file import looks_like_key, read_mcp_file
from choirctl.start.state_directory import initial_config
from tests.support.preloaded_choirctl import run_choirctl

GITHUB_KEY = "ghp_" + "a1" * 18
FILE = {
    "mcpServers": {
        "My Git_Hub": {
            "command": "/usr/local/bin/github-mcp",
            "args": ["stdio"],
            "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": GITHUB_KEY, "LOG": "info", "PATH": "/x"},
        },
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]},
        "wiki": {"url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer t0ken-9"}},
        "asked": {"type": "stdio", "command": "db", "env": {"DB_KEY": "${input:db-key}"}},
        "search": {"command": "npx", "args": ["search"], "env": {"BRAVE_API_KEY": "k"}},
        "flag": {"command": "srv", "args": ["--api-key", "k-123"]},
        "inline": {"command": "srv", "args": ["--api-key=k-123"]},
        "old": {"type": "sse", "url": "https://old.example/sse"},
        "query": {"url": "https://q.example/mcp?api_key=abc"},
        "header": {"url": "https://h.example/mcp", "headers": {"X-Api-Key": "abc"}},
        "folder": {"command": "srv", "args": ["${workspaceFolder}"]},
        "off": {"command": "srv", "disabled": True},
        "MY git-hub": {"command": "srv"},
        "\u202e": {"command": "srv"},
    }
}


def test_servers_become_entries_and_keys_become_secrets() -> None:
    servers = {s.source: s for s in read_mcp_file(json.dumps(FILE), "mcp.json", ("main",))}
    hub = servers["My Git_Hub"]
    secret = "mcp-my-git-hub-github-personal-access-token"
    assert (hub.name, hub.secrets) == ("my-git-hub", {secret: GITHUB_KEY})
    assert hub.entry == {
        "command": ["/usr/local/bin/github-mcp", "stdio"],
        "environment": {"LOG": "info"},
        "secrets": {"GITHUB_PERSONAL_ACCESS_TOKEN": secret},
        "agents": ["main"],
    }
    assert servers["files"].entry["hosts"] == ["registry.npmjs.org"]
    assert servers["wiki"].entry["secret"] == "mcp-wiki-token"
    assert servers["wiki"].secrets == {"mcp-wiki-token": "t0ken-9"}
    assert servers["asked"].secrets == {"mcp-asked-db-key": None}
    faults = {source: server.fault for source, server in servers.items() if server.fault}
    expected = {
        "search": "cannot have secrets",
        "flag": "looks like a key",
        "inline": "looks like a key",
        "old": "SSE",
        "query": "contains a key",
        "header": "X-Api-Key",
        "folder": "only that program replaces",
        "off": "disabled",
        "MY git-hub": "another server",
        "\u202e": "no letters",
    }
    assert faults.keys() == expected.keys()
    assert [s for s, text in expected.items() if text not in faults[s]] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "not JSON"), ("[]", "no object"), ('{"mcpServers": {}}', "lists no servers")],
)
def test_other_files_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        read_mcp_file(text, "mcp.json", ("main",))


def test_vs_code_files_are_read_too() -> None:
    entry = {"command": "srv", "type": "stdio"}
    for content in ({"servers": {"a": entry}}, {"mcp": {"servers": {"a": entry}}}):
        assert read_mcp_file(json.dumps(content), "x", ("main",))[0].entry["command"] == ["srv"]


def test_what_looks_like_a_key() -> None:
    assert looks_like_key("DATABASE_URL", "postgres://me:pw@db/x")
    assert looks_like_key("X", "sk-abc") and looks_like_key("OPENAI_API_KEY", "x")
    assert not looks_like_key("LOG_LEVEL", "debug") and not looks_like_key("MONKEY", "banana")
    assert not looks_like_key("", "@modelcontextprotocol/server-sequential-thinking")


def test_an_import_shows_first_changes_once_and_prints_no_key(tmp_path: Path) -> None:
    config, secrets = tmp_path / "config.json", tmp_path / "secrets.json"
    config.write_text(initial_config(tmp_path))
    (tmp_path / "mcp.json").write_text(json.dumps(FILE))

    def run(*words: str) -> str:
        path = str(tmp_path / "mcp.json")
        done = run_choirctl("mcp", "import", path, "--agent", "main", *words, home=tmp_path)
        assert done.returncode == 0, done.stderr
        assert GITHUB_KEY not in done.stdout + done.stderr
        return done.stdout

    before = config.read_text()
    run("--preview")
    assert config.read_text() == before and not secrets.exists()
    run()
    after = config.read_text()
    assert GITHUB_KEY not in after and GITHUB_KEY in secrets.read_text()
    assert [*json.loads(after)["mcp"]["servers"]] == ["my-git-hub", "files", "wiki", "asked"]
    results = {row["name"]: row["result"] for row in json.loads(run("--json"))["servers"]}
    assert results["wiki"] == results["files"] == "unchanged"
    assert config.read_text() == after
