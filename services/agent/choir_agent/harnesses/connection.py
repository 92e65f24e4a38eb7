"""Connections with a harness: its program as the settings describe it, and the handshake."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from choir_agent.harnesses.acp_session import AcpSession
from choir_agent.harnesses.calls import tool_prefix
from choir_agent.harnesses.jsonl_session import JsonLinesSession
from choir_agent.harnesses.program import open_program
from choir_agent.harnesses.updates import HarnessError, HarnessSession
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_common.i18n import _
from choir_common.wire.harness_config import HarnessConfig


@dataclass(frozen=True, slots=True)
class HarnessCommand:
    """Starts one harness."""

    name: str
    config: HarnessConfig
    secrets: Mapping[str, str] = field(repr=False)
    """Values by the name of the secret; empty if it has none."""
    programs: ProgramRunner = field(compare=False)

    @asynccontextmanager
    async def connect(self, purpose: str) -> AsyncIterator[HarnessSession]:
        """Start the program, make the handshake, and yield the connection; raises HarnessError.

        `purpose` names the job in the records of the egress proxy.
        """
        for name in sorted(self.config.secret_names()):
            if not self.secrets.get(name):
                raise HarnessError(
                    _("the secret {name} has no value: choirctl secret set {name}").format(
                        name=name
                    )
                )
        async with open_program(self.programs, self._program(purpose)) as lines:
            protocol = AcpSession if self.config.protocol == "acp" else JsonLinesSession
            session = protocol(lines, str(self.programs.workspace))
            async with self.start_limit():
                await session.initialize()
            yield session

    @asynccontextmanager
    async def start_limit(self) -> AsyncIterator[None]:
        """Limit the time of a step of the start; raises HarnessError after it."""
        seconds = self.config.start_timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise HarnessError(
                _("it did not answer within {seconds:g} s (start_timeout_ms)").format(
                    seconds=seconds
                )
            ) from None

    def _program(self, purpose: str) -> Program:
        secrets = {name: self.secrets[secret] for name, secret in self.config.secrets.items()}
        return Program(
            f"harness-{purpose}",
            self.config.command,
            timeout_s=0,
            offline=not self.config.hosts,
            tool=tool_prefix(self.name).rstrip("."),
            hosts=self.config.hosts,
            is_limited=True,
            environment={"NODE_USE_ENV_PROXY": "1", **self.config.environment, **secrets},
        )
