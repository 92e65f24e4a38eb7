"""The browser service, confined as the embedded stack confines it."""

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import dataclass

from choir_local.confinement import confine
from choir_local.home import Home
from choir_local.launch import Command, clean_environment
from tests.support.bus import SERVICE_KEYS
from tests.support.service_process import ServiceProcess, short_home, socket_of


@dataclass
class ConfinedBrowser(ServiceProcess):
    """A browser service behind its walls; `program` replaces it by another program in its place."""

    program: tuple[str, ...] = (sys.executable, "-P", "-m", "choir_browser")

    async def spawn(self) -> Process:
        """Start the process without waiting until it is ready."""
        home = Home(self.home)
        home.make()
        settings = {
            "CHOIR_HOME": str(self.home),
            "CHOIR_NATS_URL": self.nats_url,
            "CHOIR_SECRETS_FILE": "/dev/stdin",
            **self.env,
        }
        command = confine("browser", Command(self.program, clean_environment(**settings)), home)
        # a pipe, which unlike a socket pair can be opened by its name
        reader, writer = os.pipe()
        os.write(writer, json.dumps({"nats_key": SERVICE_KEYS["browser"]}).encode())
        os.close(writer)
        with (self.home / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command.argv, env=dict(command.env), stdin=reader, stdout=log, stderr=log
            )
        os.close(reader)
        return self.process


@contextlib.asynccontextmanager
async def confined_browser(nats_url: str) -> AsyncIterator[ConfinedBrowser]:
    """Create a confined browser service, not started yet; kill it after the block."""
    async with short_home() as home:
        process = ConfinedBrowser("choir_browser", home, nats_url, socket_of(home, "browser"))
        try:
            yield process
        finally:
            await process.kill()
