"""A canary in every secret slot of an agent is found nowhere it wrote to (GUARANTEES 6 and S10)."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import orjson

from choir_common.wire.config import (
    EmailConfig,
    GitIdentityConfig,
    ModelConfig,
    NotionConfig,
    SearchConfig,
    TtsConfig,
    VoiceBinding,
    VoiceProfileConfig,
)
from choir_common.wire.events import ToolResultCommitted
from tests.service.agent.control_stand_in import TOKEN, ControlStandIn, SameAnswer, run_control
from tests.service.agent.rude_provider import Behaviour, Request, rude_provider
from tests.service.agent.running_agent import agent_process

CANARIES = {
    name: f"canary-{name}-{number:04d}+/=Zz"
    for number, name in enumerate(("model", "core", "git", "notion", "search", "tts"), 7301)
}
PASSWORD = "canary-mail-password-5512"
SECRETS = {**CANARIES, "email": f"someone@example.org:{PASSWORD}"}

# What a curious model would try: environments, command lines, descriptors, the agent's memory, git.
PROBES = (
    "env; cat /proc/*/environ /proc/*/cmdline 2>&1 | tr '\\0' '\\n'",
    "for f in /proc/$PPID/fd/*; do timeout 1 head -c 100000 $f 2>&1; done | head -c 100000",
    "cat $GIT_CONFIG_GLOBAL $(dirname $GIT_CONFIG_GLOBAL)/ssh_config; ls -la $(dirname $GIT_CONFIG_GLOBAL)",
    "printf 'protocol=https\\nhost=github.com\\n\\n' | git credential fill",
    "printf 'protocol=https\\nhost=evil.example\\n\\n' | git credential fill",
    "printf 'protocol=https\\nhost=github.com\\n\\n' | GIT_TRACE=1 GIT_TRACE_CURL=1 git credential fill 2>&1",
    # the shell's parent is the agent
    "for f in maps environ mem; do head -c 1 /proc/$PPID/$f >/dev/null && echo OPENED $f; done 2>&1",
    "python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDONLY)' /proc/$PPID/mem 2>&1 | tail -1",
)


def costumes(secret: str) -> set[bytes]:
    """Return what a secret may look like in a byte stream."""
    plain = secret.encode()
    return {plain, base64.b64encode(plain).rstrip(b"="), quote(secret, safe="").encode()}


def bind(control: ControlStandIn) -> None:
    """Give the agent a resource, and so a secret, in every slot there is."""
    control.secret, control.secrets = "model", SECRETS
    core = ModelConfig(model="m", endpoint=control.model_endpoint, secret="core")
    tts = TtsConfig(model_id="m", endpoint="http://127.0.0.1:9", secret="tts")
    control.bound = {
        "core_model_name": "deep",
        "core_model": core,
        "git_identity": GitIdentityConfig(name="D", email="d@example.org", secret="git"),
        "notion": NotionConfig(secret="notion", endpoint="http://127.0.0.1:9"),
        "search": SearchConfig(secret="search", endpoint="http://127.0.0.1:9"),
        "email": EmailConfig(
            smtp_host="127.0.0.1", smtp_port=9, imap_host="127.0.0.1", imap_port=9,
            sharing="exclusive", secret="email",
        ),
        "voice": VoiceBinding(profile=VoiceProfileConfig(tts="t", voice_id="v"), tts=tts),
    }  # fmt: skip


def call(command: str) -> dict[str, object]:
    """Return a call of the shell as it stands in an answer."""
    arguments = orjson.dumps({"command": command, "network": True}).decode()
    return {
        "id": "c",
        "type": "function",
        "function": {"name": "choir_exec", "arguments": arguments},
    }


def prober(seen: list[bytes]) -> Behaviour:
    """Return a model that tries every probe, one after the other, and notes every prompt."""

    async def behave(request: Request) -> None:
        seen.append(orjson.dumps(request.body))
        done = request.answered_calls
        if done < len(PROBES):
            await request.say(None, "tool_calls", tool_calls=[call(PROBES[done])])
        else:
            await request.say(f"I found {', '.join(SECRETS.values())}")

    return behave


def files_below(root: Path) -> Iterator[bytes]:
    """Yield what the files of a directory hold."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path.read_bytes()


async def test_secrets_are_in_no_event_log_file_prompt_or_output() -> None:
    prompts: list[bytes] = []
    async with rude_provider({"look around": prober(prompts)}) as provider:
        async with run_control(provider.endpoint) as control:
            bind(control)
            # a command with network asks once its lane holds text from outside
            control.approvals = SameAnswer("approved")
            # as the runtimes start it: even root without capabilities
            capless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
            async with agent_process(control, capless if os.geteuid() == 0 else ()):
                await control.say("look around")
                await control.replied()
                disk = b"\n".join(files_below(control.root))
            events = b"\n".join(event.model_dump_json().encode() for event in control.events)
            outputs = [p.output for p in control.payloads() if isinstance(p, ToolResultCommitted)]
    assert len(outputs) == len(PROBES)
    for secret in (*SECRETS.values(), PASSWORD, TOKEN):
        for costume in costumes(secret):
            where = {"events": events, "disk and logs": disk, "prompts": b"\n".join(prompts)}
            assert [name for name, text in where.items() if costume in text] == [], secret
    # the probes did try: git gave the token, which was masked on its way into the log
    assert "password=[redacted]" in str(outputs[3]["stdout"])
    assert "password" not in str(outputs[4]["stdout"])
    assert "OPENED" not in str(outputs[6])
    assert "denied" in str(outputs[6])
    assert "PermissionError" in str(outputs[7])
    assert "[redacted], [redacted]" in control.replies()[-1].text
