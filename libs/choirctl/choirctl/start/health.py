"""What a check of the health of Choir needs and returns. Used by the checks and by `doctor`."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from choir_common.wire.config import ModelConfig
from choir_common.wire.config_api import ConfigView
from choir_common.wire.operator import SystemStatus
from choir_local.home import Home
from choir_local.settings import LocalSettings
from choirctl.start.background import is_running

Outcome = Literal["ok", "warn", "fail"]


class Finding(BaseModel):
    """Result of one check."""

    model_config = ConfigDict(frozen=True)

    id: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True)
class RunningChoir:
    """A Choir that responds: its status and its active configuration."""

    status: SystemStatus
    config: ConfigView

    def models(self) -> dict[str, ModelConfig]:
        """Return the configured language models, by name."""
        section = self.config.config.get("models")
        entries = section if isinstance(section, dict) else {}
        return {
            name: ModelConfig.model_validate_json(json.dumps(it)) for name, it in entries.items()
        }


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation to check."""

    home: Home
    settings: LocalSettings
    running: RunningChoir | None = None
    """Status and configuration of the Choir of this state directory, if it responds."""

    @property
    def in_containers(self) -> bool:
        """Return whether the Choir that responds runs in containers, not as processes of this machine."""
        return self.running is not None and not is_running(self.home)

    @property
    def config(self) -> Path:
        return self.home.root / "config.json"


CheckResult = tuple[Outcome, str]
HealthCheck = Callable[[Installation], Awaitable[CheckResult]]
