"""Wiring of this package. Called by `app`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_control.approvals.store import Approval, ApprovalStore
from choir_control.configuration.current import Configuration
from choir_control.evolution.ask import Intake
from choir_control.evolution.benches import Benches
from choir_control.evolution.carrier import Carrier
from choir_control.evolution.carry_out import Evolution
from choir_control.evolution.config_change import ConfigChange, PutInForce
from choir_control.evolution.config_file import ConfigFile
from choir_control.evolution.new_files import NewFiles, files_of_skill, files_of_tool
from choir_control.evolution.repo_change import RepoChange
from choir_control.evolution.store import EffectStore
from choir_control.repos.keys import Keys

Renew = Callable[[str], Awaitable[str]]
"""Builds an agent's image again and updates the agent; returns a text about the result."""
CHANGES_THE_IMAGE = ("skill", "repo_change")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Dependencies of this package."""

    home: Path
    config_file: Path
    environment: Mapping[str, str]
    """Control's own environment; git receives a few allow-listed variables of it."""
    database: Database
    configuration: Configuration
    approvals: ApprovalStore
    clock: Clock
    order: Callable[[str], asyncio.Lock]
    ring: Callable[[str], None]
    said: Callable[[str], None]
    """Called with a conversation (DM) that has a new message."""
    put_in_force: PutInForce
    renew: Renew
    keys: Keys | None = None
    """Credentials of the agents' private repositories."""


class Workshop:
    """The intake and the worker of proposals, with their shared clones."""

    def __init__(self, around: Surroundings) -> None:
        self._benches = Benches(
            around.home, around.configuration, around.environment, around.clock, around.keys
        )
        self._effects = EffectStore(around.database)
        carriers = _carriers(around, self._benches)
        self.intake = Intake(around.approvals, carriers, around.said)

        async def settle(asked: Approval) -> str:
            renewed = asked.request_type in CHANGES_THE_IMAGE
            return await around.renew(asked.agent_id) if renewed else ""

        self.evolution = Evolution(
            around.approvals,
            self._effects,
            carriers,
            around.order,
            around.ring,
            around.said,
            settle,
        )

    async def tidy(self) -> None:
        """Remove unused clones; called periodically."""
        # between storing a plan and pushing its commit, the clone has the only copy of that commit
        if not await self._effects.unfinished():
            await self._benches.sweep()


def _carriers(around: Surroundings, benches: Benches) -> dict[str, Carrier]:
    return {
        "config_change": ConfigChange(
            around.configuration, ConfigFile(around.config_file), around.put_in_force
        ),
        "skill": NewFiles(benches, files_of_skill),
        "tool": NewFiles(benches, files_of_tool),
        "repo_change": RepoChange(benches),
    }
