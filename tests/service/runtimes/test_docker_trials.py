"""Trials of tools in containers: walls of an agent, newest files, the program's report, and its end."""

import base64
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]  # it ships no types
import pytest

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.wire.local_tools import ToolTrial, ToolTrialOrder
from choirctl.start.tool_templates import TEMPLATES, manifest_text
from tests.service.runtimes.containers import PYTHON_IMAGE, Yard, connect, yard_for

REAL_IMAGE = "choir-agent:local"
PROGRAM = """
import json, os, sys, time
order = json.loads(sys.stdin.buffer.read())
print("a warning", file=sys.stderr)
if order["tool"] == "sleep":
    time.sleep(600)
if order["tool"] == "broken":
    sys.exit("The manifest is broken.")
soul = open(order["choir_dir"] + "/SOUL.md").read()
open(order["workspace"] + "/made", "w").close()
status = open("/proc/self/status").read()
print(json.dumps({"order": order, "soul": soul, "none": "CapEff:\\t0000000000000000" in status}))
"""


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Make an image of an agent whose trial program is a small one, and which has its own /choir."""
    client, code = connect(), base64.b64encode(PROGRAM.encode()).decode()
    lines = (
        f"FROM {PYTHON_IMAGE}",
        "RUN mkdir -p /opt/agent/bin /choir && printf baked > /choir/SOUL.md"
        f" && printf {code} | base64 -d > /opt/agent/trial.py"
        # the words of the agent's program must be there
        """ && printf '%s\\n' '#!/bin/sh' '[ "$*" = "-I -m choir_agent.tool_bench try" ] || exit 9'"""
        " 'exec python /opt/agent/trial.py' > /opt/agent/bin/python"
        " && chmod 755 /opt/agent/bin/python",
        'ENTRYPOINT ["/bin/false"]',
    )
    built, _ = client.images.build(fileobj=io.BytesIO("\n".join(lines).encode()), rm=True)
    yield str(built.id)
    client.images.remove(built.id, force=True)
    client.close()


async def run(yard: Yard, image: str, tool: str, timeout_s: float = 120, key: str = "") -> Any:
    spec = replace(yard.spec(), docker_image=image, egress_key=key)
    order = ToolTrialOrder(
        tool=tool,
        input={},
        workspace=str(spec.workspace),
        choir_dir=str(spec.choir_dir),
        egress_socket=spec.egress_socket(str(spec.socket_dir)),
        egress_key=key,
    )
    return json.loads(await yard.runtime.run_trial(spec, order, timeout_s))


async def test_a_trial_has_the_agents_image_and_walls_and_the_newest_files(image: str) -> None:
    async with yard_for("choir-agent:not-this-one") as yard:
        report = await run(yard, image, "a.tool", key="ab" * 32)
        with pytest.raises(InvalidRequest, match="^The manifest is broken.$"):
            await run(yard, image, "broken")
        with pytest.raises(Unavailable, match="did not end within 1 s"):
            await run(yard, image, "sleep", timeout_s=1)
        assert await yard.places() == []
        made = yard.home / "workspaces/main/made"
        assert made.exists()
    # not the files that the image was built with
    assert (report["soul"], report["none"]) == ("kind", True)
    order = report["order"]
    assert (order["workspace"], order["choir_dir"]) == ("/workspace", "/choir")
    assert order["egress_socket"] == "/run/choir/proxy.sock"


@pytest.mark.nightly
async def test_the_agents_own_trial_program_runs_a_tool_from_a_template() -> None:
    client = connect()
    try:
        client.images.get(REAL_IMAGE)
    except docker.errors.ImageNotFound:
        pytest.skip(f"needs {REAL_IMAGE}: docker compose build agent")
    finally:
        client.close()
    async with yard_for(REAL_IMAGE) as yard:
        _write_tool(yard.spec().choir_dir / "tools/agent")
        spec = yard.spec()
        order = ToolTrialOrder(
            tool="text.count",
            input={"text": "a b"},
            workspace=str(spec.workspace),
            choir_dir=str(spec.choir_dir),
        )
        trial = ToolTrial.model_validate_json(await yard.runtime.run_trial(spec, order, 200))
        assert (trial.status, trial.exit_code) == ("success", 0), trial
        with pytest.raises(InvalidRequest, match="There is no tool 'text.cuont'"):
            wrong = order.model_copy(update={"tool": "text.cuont"})
            await yard.runtime.run_trial(spec, wrong, 200)


def _write_tool(top: Path) -> None:
    folder = top / "text_count"
    folder.mkdir(parents=True)
    program = folder / TEMPLATES["python"].program
    program.write_text(TEMPLATES["python"].text)
    program.chmod(0o755)
    text = manifest_text(TEMPLATES["python"], "text.count", folder.name)
    folder.with_suffix(".json").write_text(text)
