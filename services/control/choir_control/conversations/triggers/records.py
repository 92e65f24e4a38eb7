"""Deliveries of triggers as they are stored, and the configured triggers."""

from dataclasses import dataclass
from datetime import datetime

from choir_common.wire.attachments import Attachment
from choir_common.wire.config import Config
from choir_common.wire.trigger_config import TriggerKind
from choir_common.wire.triggers import TriggerType

KEY_PREFIX = "trigger:"
"""Prefix of the `update_id` of a trigger's inbox row. `ScheduleStore` and migrations rely on it."""


@dataclass(frozen=True, slots=True)
class TriggerTarget:
    """Who gets what a trigger brings, and how."""

    type: TriggerType
    name: str
    agent_id: str
    dm: str
    kind: TriggerKind


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """Something that has arrived."""

    target: TriggerTarget
    text: str
    key: str
    """Equal for repetitions."""
    size: int
    received_at: datetime
    content_key: str | None = None
    """A digest of the content if equal contents are repetitions, whatever their key."""
    attachments: tuple[Attachment, ...] = ()
    """Files that came with it."""
    file_gateway: str = ""
    """The gateway that has the files."""


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """The id of a stored delivery, and whether it was stored before."""

    delivery_id: str
    is_duplicate: bool


@dataclass(frozen=True, slots=True)
class WaitingDelivery:
    """A delivery whose agent can take it up now."""

    delivery_id: str
    target: TriggerTarget
    text: str
    received_at: datetime


@dataclass(frozen=True, slots=True)
class OpenDeliveries:
    """Deliveries of a trigger that wait or are running."""

    waiting: int = 0
    running: int = 0


def hook_target(config: Config, name: str) -> TriggerTarget:
    """Return the target of a configured hook."""
    hook = config.hooks[name]
    return TriggerTarget("hook", name, hook.agent, _dm(config, hook.agent, hook.dm), hook.kind)


def trigger_target(config: Config, name: str) -> TriggerTarget:
    """Return the target of a watched folder, or of mail."""
    trigger = config.triggers[name]
    dm = _dm(config, trigger.agent, trigger.dm)
    return TriggerTarget(trigger.type, name, trigger.agent, dm, trigger.kind)


def trigger_names(config: Config) -> list[str]:
    """Return the configured triggers, each as its type and name."""
    return [
        *(f"hook {name}" for name in config.hooks),
        *(f"{trigger.type} {name}" for name, trigger in config.triggers.items()),
    ]


def _dm(config: Config, agent_id: str, dm: str | None) -> str:
    return dm or config.agents[agent_id].defaults.dm
