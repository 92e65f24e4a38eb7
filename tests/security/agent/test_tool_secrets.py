"""A key that a tool is given shows up nowhere: events, files, the process's log (GUARANTEES S10)."""

import base64
import json
import sys
from pathlib import Path
from urllib.parse import quote

from choir_common.wire.config import NotionConfig, SearchConfig
from choir_common.wire.events import ToolResultCommitted
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import agent_process
from tests.support.fake_web_services import KEY, fake_brave

TELLTALE = """
import base64, json, sys
given = json.load(sys.stdin)
key = given["secrets"]["notion"]
print(key, file=sys.stderr)
print(json.dumps({"key": key, "coded": base64.b64encode(key.encode()).decode(), "long": key + "x" * 200_000}))
"""
CALLS = [
    {"name": "choir.web.search", "arguments": {"query": "one"}},
    {"name": "choir.web.search", "arguments": {"query": "two"}},
    {"name": "choir.web.search", "arguments": {"query": "three"}},
    {"name": "tell.tale", "arguments": {}},
    {"name": "choir.exec", "arguments": {"command": "env; cat /proc/self/environ; ps ax"}},
]


def put_telltale(choir_dir: Path) -> None:
    """Install a tool that tells its secret in every way it can."""
    place = choir_dir / "tools/agent/telltale"
    place.parent.mkdir(parents=True)
    place.write_text(f"#!{sys.executable} -IS\n{TELLTALE}")
    place.chmod(0o755)
    runtime = {
        "timeout_ms": 10_000, "side_effect": "none", "idempotent": True,
        "secret_resources": ["notion"],
    }  # fmt: skip
    llm = {"name": "tell.tale", "description": "Tells.", "parameters": {"type": "object"}}
    place.with_suffix(".json").write_text(json.dumps({"llm": llm, "runtime": runtime}))


def everything(control: ControlStandIn) -> bytes:
    """Return all that was stored or logged."""
    stored = "".join(event.model_dump_json() for event in control.events).encode()
    files = [path.read_bytes() for path in control.workspace.rglob("*") if path.is_file()]
    return b"\n".join([stored, (control.root / "agent.log").read_bytes(), *files])


async def test_a_tools_key_is_in_no_event_no_file_and_no_log() -> None:
    steps = Score.model_validate(
        {"rules": [], "otherwise": [{"call": CALLS}, {"say": "done: {result.output}"}]}
    )
    async with (
        fake_brave() as brave,
        run_rehearsal(steps) as model,
        run_control(model) as control,
    ):
        put_telltale(control.choir_dir)
        control.bound = {
            "search": SearchConfig(secret="brave", endpoint=brave.endpoint),
            "notion": NotionConfig(secret="notion", endpoint=brave.endpoint),
        }
        control.secrets = {"brave": KEY, "notion": KEY}
        echo = {"error": {"code": "X", "detail": f"no: {KEY}"}}
        brave.then(200, {"web": {"results": [{"url": f"https://x/{KEY}", "title": KEY}]}})
        brave.then(500, echo)
        brave.then(429, echo, {"Retry-After": "3600"})
        async with agent_process(control):
            await control.say("go")
            await control.replied()
            ended = [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]
        found = everything(control)
    assert [result.status for result in ended].count("success") == 3
    # `ps` is long enough for a file of its own on some machines
    assert "tell.tale" in [result.tool for result in ended if result.artifact_ref]
    assert all(asked.headers["x-subscription-token"] == KEY for asked in brave.asked)
    assert b"[redacted]" in found
    for form in (KEY, base64.b64encode(KEY.encode()).decode().rstrip("="), quote(KEY, safe="")):
        assert form.encode() not in found
