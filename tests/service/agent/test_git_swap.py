"""A running agent gives its commands the git identity of the moment."""

import hashlib
from pathlib import Path

import orjson

from choir_common.wire.config import GitIdentityConfig
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.signals import ConfigChangedSignal, ShutdownSignal
from tests.service.agent.control_stand_in import ControlStandIn, SameAnswer, run_control
from tests.service.agent.rude_provider import Request, rude_provider
from tests.service.agent.running_agent import agent_process

COMMAND = (
    "git config user.email; dirname $GIT_CONFIG_GLOBAL; "
    "printf 'protocol=https\\nhost=git.local\\n\\n' | git credential fill "
    # its hash, because the token itself is masked
    "| sed -n 's/^password=//p' | tr -d '\\n' | sha256sum"
)
TOKENS = ("ghp_first_token", "ghp_second_token")


async def ask_git(request: Request) -> None:
    """Run the command once, then answer."""
    arguments = orjson.dumps({"command": COMMAND, "network": True}).decode()
    if request.answered_calls:
        await request.say("done")
    else:
        call = {"id": "c", "function": {"name": "choir_exec", "arguments": arguments}}
        await request.say(None, "tool_calls", tool_calls=[call])


def outputs(control: ControlStandIn) -> list[str]:
    """Return what the commands printed."""
    results = [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]
    return [f"{result.output['stdout']}{result.output['stderr']}" for result in results]


def swaps(control: ControlStandIn) -> int:
    """Return how often the agent has taken over new settings or secrets."""
    return (control.root / "agent.log").read_text().count("settings updated")


def identity(email: str, *hosts: str) -> GitIdentityConfig:
    """Return an identity of the agent."""
    return GitIdentityConfig(name="Dev", email=email, secret="git", hosts=hosts)


async def test_identity_and_token_are_swapped_without_a_restart() -> None:
    async with rude_provider({"git": ask_git}) as provider:
        async with run_control(provider.endpoint) as control:
            control.approvals = SameAnswer("approved")
            control.secrets = {"git": TOKENS[0]}
            control.bound = {"git_identity": identity("one@example.org", "git.local")}
            async with agent_process(control) as agent:
                await control.say("git")
                await control.replied()
                control.bound = {"git_identity": identity("two@example.org", "git.local", "x")}
                control.config_version = 2
                await control.tell(ConfigChangedSignal(config_version=2))
                await control.until(lambda: control.heartbeats[-1].config_version == 2)
                await control.say("git", "inb_2")
                await control.replied(2)
                # the secret alone, as `secret apply` does it: the version stays
                control.secrets = {"git": TOKENS[1]}
                await control.tell(ConfigChangedSignal(config_version=2))
                await control.until(lambda: swaps(control) == 2)
                await control.say("git", "inb_3")
                await control.replied(3)
                await control.tell(ShutdownSignal(reason="done"))
                assert await agent.wait() == 0
    said = [output.split() for output in outputs(control)]
    hashes = [hashlib.sha256(token.encode()).hexdigest() for token in TOKENS]
    assert [(words[0], words[2]) for words in said] == [
        ("one@example.org", hashes[0]),
        ("two@example.org", hashes[0]),
        ("two@example.org", hashes[1]),
    ]
    # the same private directory all along, and gone with the agent
    assert [Path(place).exists() for place in {words[1] for words in said}] == [False]
