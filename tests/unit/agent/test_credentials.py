"""Who may have which secret, and what git is told."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from choir_agent.credentials.config_files import git_config, is_private_key, ssh_config
from choir_agent.credentials.credential_server import (
    GitCredential,
    is_descendant,
    is_own_descendant,
    respond_to_request,
)
from choir_agent.settings import CurrentSettings
from choir_agent.tools.availability import secrets_for
from choir_common.wire.config import (
    AgentSettings,
    Budgets,
    GitIdentityConfig,
    ModelConfig,
    NotionConfig,
)

IDENTITY = GitIdentityConfig(
    name="Dev", email="dev@example.org", secret="git-token", hosts=("github.com", "git.local:8443")
)
CREDENTIAL = GitCredential(IDENTITY, "t0ken-canary")
SETTINGS = AgentSettings(
    model_name="default",
    model=ModelConfig(model="m", endpoint="http://x", secret="model-key"),
    budgets=Budgets(),
    heartbeat_interval_ms=1000,
    rate_limit_retry_ms=1000,
    event_window=50,
    git_identity=IDENTITY,
    notion=NotionConfig(secret="notion-key"),
)


def test_a_tool_gets_the_secrets_its_manifest_names_and_no_others() -> None:
    secrets = {"model-key": "m", "git-token": "g", "notion-key": "n"}
    current = CurrentSettings(SETTINGS, secrets)
    assert secrets_for((), current) == {}
    assert secrets_for(("notion",), current) == {"notion": "n"}
    # neither bound nor known: left out
    assert secrets_for(("email", "search", "voice_profile"), current) == {}
    assert secrets_for(("git_identity", "notion"), CurrentSettings(SETTINGS)) == {}


@pytest.mark.parametrize(
    "host", ["github.com", "GitHub.com", "github.com:443", "git.local:8443", "GIT.local:8443"]
)
def test_an_allowed_host_gets_the_token_over_https(host: str) -> None:
    answer = respond_to_request(f"protocol=https\nhost={host}\n\n", CREDENTIAL)
    assert answer.text == "username=x-access-token\npassword=t0ken-canary\n"


def test_a_user_name_in_the_address_is_kept() -> None:
    question = (
        "capability[]=authtype\ncapability[]=state\nprotocol=https\nhost=github.com\nusername=me\n"
    )
    assert respond_to_request(question, CREDENTIAL).text.startswith("username=me\n")


@pytest.mark.parametrize(
    "question",
    [
        "",
        "\n",
        "protocol=https\n",
        "host=github.com\n",
        "protocol=http\nhost=github.com\n",
        "protocol=ssh\nhost=github.com\n",
        "protocol=https\nhost=\n",
        "protocol=https\nhost=:443\n",
        "protocol=https\nhost=evil.com\n",
        "protocol=https\nhost=github.com.evil.com\n",
        "protocol=https\nhost=evilgithub.com\n",
        "protocol=https\nhost=sub.github.com\n",
        "protocol=https\nhost=github.com:8443\n",
        "protocol=https\nhost=git.local\n",
        "protocol=https\nhost=github.com@evil.com\n",
        "protocol=https\nhost=github.com/../evil\n",
        "protocol=https\nhost=github.com\rhost=evil.com\n",
        "protocol=https\nhost=github.com\0.evil.com\n",
        "protocol=https\nhost=evil.com\nhost=github.com\n",
        "protocol=http\nprotocol=https\nhost=github.com\n",
        "protocol=https\nhost= github.com\n",
        "protocol=https\nhost=*\n",
        "nonsense",
        "protocol=https\nhost=github.com\npath=" + "x" * 9000,
    ],
)
def test_anything_else_gets_a_reason_and_no_token(question: str) -> None:
    answer = respond_to_request(question, CREDENTIAL)
    assert answer.text == ""
    assert answer.refusal
    assert "canary" not in answer.refusal


@pytest.mark.parametrize(
    "credential",
    [
        None,
        GitCredential(IDENTITY, None),
        GitCredential(IDENTITY, ""),
        GitCredential(IDENTITY, "a\nb"),
    ],
)
def test_without_a_usable_token_there_is_no_answer(credential: GitCredential | None) -> None:
    assert respond_to_request("protocol=https\nhost=github.com\n", credential).text == ""


def test_a_configuration_cannot_be_broken_out_of(tmp_path: Path) -> None:
    odd = IDENTITY.model_copy(update={"name": 'a"b\\c\n[core]\n\tpager = evil #', "email": "é;x"})
    path = tmp_path / "config"
    path.write_text(git_config(odd, tmp_path / "none", tmp_path / "ssh", "!'a b' \"c\""))

    def get(name: str) -> list[str]:
        done = subprocess.run(
            ["git", "config", "-z", "--file", path, "--get-all", name],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.split("\0")[:-1]

    assert get("user.name") == [odd.name]
    assert get("user.email") == [odd.email]
    assert get("core.pager") == []
    assert get("credential.helper") == ["", "!'a b' \"c\""]


def test_only_plain_host_names_are_offered_the_key(tmp_path: Path) -> None:
    hosts = ("github.com", "git.local:8443", "*", "!x", "a b", "x\n    IdentityAgent y", "?.com")
    lines = ssh_config(hosts, tmp_path, tmp_path).splitlines()
    assert lines[0] == "Host github.com git.local"
    assert [line for line in lines if line.startswith("Host")] == [lines[0], "Host *"]
    assert "    IdentityAgent none" in lines[lines.index("Host *") :]


def test_a_key_is_told_from_a_token() -> None:
    assert is_private_key("-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END")
    assert not is_private_key("ghp_abcdef")


def test_only_what_we_started_is_ours() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(["sleep", "30"]) as child:
        assert is_descendant(child.pid, os.getpid())
        assert not is_descendant(os.getppid(), os.getpid())
        assert not is_descendant(1, os.getpid())
        assert not is_descendant(999_999_999, os.getpid())
        # the other end is this very process, which it did not start
        assert not is_own_descendant(ours) or sys.platform != "linux"
        child.kill()
