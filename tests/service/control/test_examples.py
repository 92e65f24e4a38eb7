"""The programs of `examples/` that talk with a choird, run as their pages say."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.service.control.test_client import at_work
from tests.service.control.world import OPERATOR_TOKEN, World
from tests.support.hooks import SECRET

EXAMPLES = Path(__file__).parents[3] / "examples"
WITHIN_S = 120


async def run(program: str, *words: str, **env: str) -> str:
    """Run a program of an example; return what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLES / program),
        *words,
        env={"PATH": os.environ["PATH"], **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(WITHIN_S):
        printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


async def test_the_python_client_streams_an_answer_and_waits_for_a_job(stopped: World) -> None:
    async with at_work(stopped):
        # by TCP: a program that choird's own process has started may not use its socket
        way = {"CHOIR_URL": stopped.tcp, "CHOIR_TOKEN": OPERATOR_TOKEN}
        printed = await run("python-client/ask.py", "main", "What is new?", **way)
    assert printed == "echo: What is new?\nThe job is completed.\n"


async def test_the_webhook_reports_a_deploy_to_the_agent(stopped: World) -> None:
    file = stopped.settings.config_file
    hooks = json.loads((EXAMPLES / "webhook/config.json").read_text())
    config = {**json.loads(file.read_text()), **hooks}
    file.write_text(json.dumps(config))
    stopped.secrets.secrets["deploy-key"] = SECRET
    await stopped.start()
    agent = await stopped.agent()
    await agent.begin()
    url = f"{stopped.tcp}/v1/hooks/deploys"
    answer = await run("webhook/report.py", url, "shop", "failed", DEPLOY_KEY=SECRET)
    assert answer.startswith("202 ")
    signal = await agent.next_message()
    assert signal.text.startswith("Deploy of ⟦shop⟧: ⟦failed⟧. If it failed")
