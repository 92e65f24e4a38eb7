"""What can happen in a simulated year, each action with the time at which it happens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from choir_common.wire.config import MemoryPrompts, MemoryServiceConfig
from choir_common.wire.memory_collections import AddDocument
from choir_common.wire.memory_config import RetentionConfig
from choir_common.wire.memory_forget import ForgetSelection
from choir_common.wire.memory_search import MemoryUpsert
from tests.support.sessions import LogBuilder

AGENT = "main"
COLLECTION = "house"
"""The collection that follows the folder."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A session ends and control's archiver sends it; an incognito one stays where it is."""

    log: LogBuilder
    incognito: bool = False


@dataclass(frozen=True, slots=True)
class WriteNote:
    """The agent, or an operator, writes knowledge."""

    write: MemoryUpsert
    by_operator: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    """A user looks at a preview and confirms it."""

    selection: ForgetSelection


@dataclass(frozen=True, slots=True)
class AddText:
    """An operator adds a document to a collection."""

    document: AddDocument


@dataclass(frozen=True, slots=True)
class ChangeFolder:
    """Files of the followed folder get a text, or are deleted (None), and the folder is scanned."""

    texts: Mapping[str, str | None]
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Configure:
    """Control has another configuration of memory from now on."""

    retention: RetentionConfig | None = None
    prompts: MemoryPrompts | None = None

    def apply(self, settings: MemoryServiceConfig) -> MemoryServiceConfig:
        """Return the settings with this change."""
        retention = {AGENT: self.retention} if self.retention else settings.retention
        prompts = {AGENT: self.prompts} if self.prompts else settings.prompts
        return settings.model_copy(update={"retention": retention, "prompts": prompts})


@dataclass(frozen=True, slots=True)
class ChangeModel:
    """The service is started again with another embedding model."""

    name: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Maintain:
    """Maintenance passes run until nothing is left to do, and every vector is made."""


Action = Archive | WriteNote | Forget | AddText | ChangeFolder | Configure | ChangeModel | Maintain


@dataclass(frozen=True, slots=True)
class Step:
    """An action and its time."""

    at: datetime
    action: Action
