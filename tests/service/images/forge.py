"""An installation with a global repository and one agent's, and what builds from them."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from choir_common.wire.config import AgentConfig, AgentDefaults, Config, RepoConfig
from choir_control.configuration.current import ConfigSnapshot
from choir_control.images.build_service import ImageBuildService
from choir_control.images.builder import Image, ImageBuilder
from choir_control.images.directory_builder import DirectoryImageBuilder
from choir_control.images.image_store import ImageStore
from choir_control.images.repositories.mirrors import Mirrors
from choir_control.images.tool_check import ToolChecker
from tests.support.repositories import GitRepository

ECHO = '#!/bin/sh\ncat >/dev/null\necho \'{"said": "%s"}\'\n'


def a_manifest(name: str, **runtime: object) -> str:
    """Return a tool's manifest."""
    return json.dumps(
        {
            "llm": {"name": name, "description": "says", "parameters": {"type": "object"}},
            "runtime": {
                "timeout_ms": 5000,
                "side_effect": "none",
                "idempotent": True,
                "network": True,
                **runtime,
            },
        }
    )


def a_skill(name: str, objective: str = "do", tool: str = "choir.fs.read") -> str:
    """Return a skill of one step."""
    step = {
        "objective": objective,
        "allowed_tools": [tool],
        "transitions": [{"on": "done", "to": "end"}],
        "terminal": False,
    }
    return json.dumps(
        {
            "name": name,
            "description": "d",
            "initial_state": "begin",
            "states": {"begin": step, "end": {"objective": "over", "terminal": True}},
            "max_steps": 3,
        }
    )


@dataclass
class Told:
    """What a build reported."""

    steps: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def progress(self, text: str, share: float | None = None) -> None:
        self.steps.append(text)
        if share is not None:
            self.shares.append(share)

    def output(self, text: str) -> None:
        self.lines.append(text)


@dataclass
class InForce:
    """A configuration in force."""

    current: ConfigSnapshot


class UncheckedTools(ToolChecker):
    """Accepts every tool: the real check starts a process for each build."""

    async def check(self, image: Image) -> None:
        pass


class Forge:
    """Everything a build needs, in one directory."""

    def __init__(self, top: Path, builder: ImageBuilder | None = None) -> None:
        self.home = top / "home"
        self.shared = GitRepository(top / "global.git")
        self.own = GitRepository(top / "own.git")
        agent = AgentConfig(
            defaults=AgentDefaults(workspace="w", llm="m", dm="d"),
            repo=RepoConfig(url=str(self.own.path)),
        )
        config = Config(
            agents={"main": agent}, workspaces={}, global_repo=RepoConfig(url=str(self.shared.path))
        )
        self.configuration = InForce(ConfigSnapshot(1, config))
        self.mirrors = Mirrors(self.home, {"PATH": "/usr/local/bin:/usr/bin:/bin"})
        self.shelf = ImageStore(self.home)
        self.tools: ToolChecker = UncheckedTools()
        self.use(builder or DirectoryImageBuilder(self.home))
        self.fill_shared()
        self.fill_own()

    def use(self, builder: ImageBuilder) -> None:
        """Build with this from now on."""
        self.builder = builder
        self.images = ImageBuildService(
            home=self.home,
            configuration=self.configuration,  # type: ignore[arg-type]
            mirrors=self.mirrors,
            builder=self.builder,
            image_store=self.shelf,
            tools=self.tools,
        )

    def fill_shared(self, **more: str) -> str:
        """Commit the global repository."""
        return self.shared.commit(
            {
                "tools/say.json": a_manifest("house.say"),
                "tools/say": ECHO % "global",
                "tools/hum.json": a_manifest("house.hum"),
                "tools/hum": ECHO % "hum",
                "skills/tidy.json": a_skill("tidy", "global"),
                "skills/plan.json": a_skill("plan"),
                "identity/USER.md": "the user",
                "identity/SOUL.md": "the house's soul",
                "identity/SOUL-CORE.md": "the house's core",
                **{name.replace("__", "/"): text for name, text in more.items()},
            },
            ("tools/say", "tools/hum"),
        )

    def fill_own(self, soul: str = "my soul", **more: str) -> str:
        """Commit the agent's repository."""
        return self.own.commit(
            {
                "tools/say.json": a_manifest("house.say"),
                "tools/say": ECHO % "agent",
                "tools/.gitkeep": "",
                "skills/tidy-mine.json": a_skill("tidy", "mine"),
                "identity/SOUL.md": soul,
                "identity/USER.md": "never taken from here",
                **more,
            },
            ("tools/say",),
        )
