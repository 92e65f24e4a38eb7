"""Bytecode of what agents import. Called by `stack`.

An agent may write to its workspace only, so it would compile all its imports at each start, if the installer
did not: uv does not by default, and pip does it for modules that nobody imports, 100 MB of them.
"""

import asyncio
import importlib.util
import os
import sys
from asyncio.subprocess import DEVNULL
from pathlib import Path

from choir_local.launch import clean_environment

AGENT = "choir_agent"
IMPORTS = """
import choir_agent.app
import choir_models.openai.client
from choir_models.anthropic.sdk_import import import_client_class
import_client_class()
"""
WITHIN_S = 120.0


async def compile_imports_of_agents() -> None:
    """Import what an agent does in a process that may write its bytecode, unless there is some already.

    Only a help for the next start of an agent: a failure is not reported.
    """
    if not is_needed():
        return
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", IMPORTS),
        env=clean_environment(),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def is_needed() -> bool:
    """Return whether the agent's package has no bytecode, and this process may write some."""
    if sys.dont_write_bytecode:
        return False
    spec = importlib.util.find_spec(AGENT)
    if spec is None or spec.origin is None:
        return False
    app = str(Path(spec.origin).with_name("app.py"))
    return not Path(importlib.util.cache_from_source(app)).exists() and os.access(
        Path(app).parent, os.W_OK
    )
